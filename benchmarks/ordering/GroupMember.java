// One member of a JGroups group with a SEQUENCER in its stack, driven as member.py says:
//     java GroupMember ME MEMBERS STACK.xml
// The main thread obeys and sends; JGroups' own threads deliver. A sender ends with a message that has the flag FINISH
// and says how many there were.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.locks.LockSupport;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.ReceiverAdapter;
import org.jgroups.View;

public class GroupMember extends ReceiverAdapter {
    static final int FINISH = 0x80000000;
    static final int HEAD_BYTES = 16;
    static final long HASH_START = 1469598103934665603L, HASH_FACTOR = 1099511628211L;

    final int me, members;
    int present, senders, size, rate, sent, finished, count;
    double seconds;
    long expected, first, last, order;
    long[] late = new long[1 << 16];
    JChannel channel;

    GroupMember(int me, int members) {
        this.me = me;
        this.members = members;
    }

    @Override
    public synchronized void viewAccepted(View view) {
        if (present == members && view.size() < members) {
            System.err.println("a member is gone: " + view);
            System.exit(1);
        }
        present = view.size();
        notifyAll();
    }

    @Override
    public synchronized void receive(Message message) {
        long at = System.nanoTime();
        ByteBuffer head = ByteBuffer.wrap(message.getRawBuffer(), message.getOffset(), message.getLength());
        int sender = head.getInt(), number = head.getInt();
        long since = head.getLong();
        if ((sender & FINISH) != 0) {
            finished++;
            expected += number;
        } else {
            if (count == late.length) late = Arrays.copyOf(late, 2 * count);
            first = Math.min(first, since);
            last = at;
            order = (order ^ (sender * 1000003L + number)) * HASH_FACTOR;
            late[count++] = at - since;
        }
        if (finished == senders && count == expected) notifyAll();
    }

    static void say(String words) {
        System.out.println("> " + words);
        System.out.flush();
    }

    void put(int sender, int number) throws Exception {
        ByteBuffer payload = ByteBuffer.allocate(Math.max(size, HEAD_BYTES));
        payload.putInt(sender).putInt(number).putLong(System.nanoTime());
        channel.send(new Message(null, null, payload.array()));
    }

    void send() throws Exception {
        long begin = System.nanoTime(), end = begin + (long) (seconds * 1e9), gap = rate > 0 ? 1_000_000_000L / rate : 0;
        for (;;) {
            long due = begin + sent * gap;
            for (long left; (left = due - System.nanoTime()) > 0;) LockSupport.parkNanos(left);
            if (System.nanoTime() >= end) break;
            put(me, ++sent);
        }
        put(me | FINISH, sent);
    }

    synchronized void awaitAll() throws InterruptedException {
        while (present < members) wait();
        say("up");
    }

    synchronized void prepare(String[] words) {
        senders = Integer.parseInt(words[1]);
        size = Integer.parseInt(words[2]);
        seconds = Double.parseDouble(words[3]);
        rate = Integer.parseInt(words[4]);
        sent = finished = count = 0;
        expected = 0;
        first = Long.MAX_VALUE;
        order = HASH_START;
        say("ready");
    }

    double share(double of) {
        return count == 0 ? 0 : late[Math.min((int) (count * of), count - 1)] / 1e3;
    }

    synchronized void report() throws InterruptedException {
        while (finished < senders || count < expected) wait();
        Arrays.sort(late, 0, count);
        say(String.format(Locale.ROOT,
            "{\"sent\":%d,\"delivered\":%d,\"order\":\"%016x\",\"first_sent_ns\":%d,\"last_delivered_ns\":%d,"
                + "\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f}",
            sent, count, order, first, last, share(.5), share(.9), share(.99)));
    }

    public static void main(String[] words) throws Exception {
        GroupMember member = new GroupMember(Integer.parseInt(words[0]), Integer.parseInt(words[1]));
        member.channel = new JChannel(words[2]);
        member.channel.setReceiver(member);
        member.channel.connect("group");
        say("joined");
        member.awaitAll();
        BufferedReader driver = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = driver.readLine()) != null;) {
            if (line.startsWith("run ")) {
                member.prepare(line.split(" "));
            } else {
                if (member.me >= member.members - member.senders) member.send();
                member.report();
            }
        }
        Runtime.getRuntime().halt(0);
    }
}
