/* One member of a CPG group of corosync, driven as member.py says: cpg_member ME MEMBERS

   One thread and one poll: messages go out in bursts as long as corosync's flow control takes them, and come in with
   cpg_dispatch. A sender ends with a message that has the flag FINISH and says how many there were. */
#define _GNU_SOURCE
#include <corosync/cpg.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FINISH 0x80000000u
#define BURST 64               /* messages between two looks at what came in */
#define JOIN_TRIES 300         /* every 100 ms: corosync may still be starting */
#define HASH_START 1469598103934665603ULL
#define HASH_FACTOR 1099511628211ULL
#define SECOND 1000000000ULL

struct head { uint32_t sender, number; uint64_t sent; };

static struct { int senders, size; double seconds; int rate; } asked;
static struct { uint64_t sent, begin, finished, expected, count, capacity, first, last, order, *late; } seen;
static enum { IDLE, READY, SENDING, HEARING } state;
static int me, members, present;

static uint64_t now (void) {
  struct timespec t;
  clock_gettime (CLOCK_MONOTONIC, &t);
  return t.tv_sec * SECOND + t.tv_nsec;
}

static void die (const char *what, int code) {
  fprintf (stderr, "%s: %d\n", what, code);
  exit (1);
}

static void keep (uint64_t late) {
  if (seen.count == seen.capacity) {
    seen.capacity = seen.capacity ? 2 * seen.capacity : 1 << 16;
    seen.late = realloc (seen.late, seen.capacity * sizeof *seen.late);
    if (!seen.late) die ("out of memory", 0);
  }
  seen.late[seen.count++] = late;
}

static void delivered (cpg_handle_t handle, const struct cpg_name *group, uint32_t node, uint32_t process, void *message,
                       size_t size) {
  struct head head;
  uint64_t at = now ();
  memcpy (&head, message, sizeof head);
  if (head.sender & FINISH) { seen.finished++; seen.expected += head.number; return; }
  if (!seen.count || head.sent < seen.first) seen.first = head.sent;
  seen.last = at;
  seen.order = (seen.order ^ (head.sender * 1000003ULL + head.number)) * HASH_FACTOR;
  keep (at - head.sent);
}

static void changed (cpg_handle_t handle, const struct cpg_name *group, const struct cpg_address *all, size_t count,
                     const struct cpg_address *left, size_t gone, const struct cpg_address *joined, size_t come) {
  if (present == members && (int) count < members) die ("a member is gone, there are", count);
  if ((int) count == members && present < members) { printf ("> up\n"); fflush (stdout); }
  present = count;
}

static int by_size (const void *a, const void *b) {
  uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;
  return (x > y) - (x < y);
}

static double share (double of) {
  uint64_t at = seen.count * of;
  return seen.count ? seen.late[at < seen.count ? at : seen.count - 1] / 1e3 : 0;
}

static void report (void) {
  qsort (seen.late, seen.count, sizeof *seen.late, by_size);
  printf ("> {\"sent\":%lu,\"delivered\":%lu,\"order\":\"%016lx\",\"first_sent_ns\":%lu,\"last_delivered_ns\":%lu,"
          "\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f}\n",
          seen.sent, seen.count, seen.order, seen.first, seen.last, share (.5), share (.9), share (.99));
  fflush (stdout);
  state = IDLE;
}

/* Whether corosync took the message. */
static int put (cpg_handle_t handle, uint32_t sender, uint32_t number) {
  static char payload[1 << 16];
  struct head head = {sender, number, now ()};
  struct iovec part = {payload, asked.size};
  memcpy (payload, &head, sizeof head);
  int said = cpg_mcast_joined (handle, CPG_TYPE_AGREED, &part, 1);
  if (said != CS_OK && said != CS_ERR_TRY_AGAIN) die ("cpg_mcast_joined", said);
  return said == CS_OK;
}

static uint64_t due (void) { return asked.rate ? seen.begin + seen.sent * (SECOND / asked.rate) : 0; }

/* Whether to poll without waiting, because more may be taken. */
static int send_some (cpg_handle_t handle) {
  for (int left = BURST; left; left--) {
    if (now () >= seen.begin + (uint64_t) (asked.seconds * 1e9)) {
      if (put (handle, me | FINISH, seen.sent)) state = HEARING;
      return 0;
    }
    if (now () < due () || !put (handle, me, seen.sent + 1)) return left < BURST;
    seen.sent++;
  }
  return 1;
}

static void obey (const char *line) {
  if (sscanf (line, "run %d %d %lf %d", &asked.senders, &asked.size, &asked.seconds, &asked.rate) == 4) {
    uint64_t *late = seen.late, capacity = seen.capacity;
    memset (&seen, 0, sizeof seen);
    seen.late = late, seen.capacity = capacity, seen.order = HASH_START;
    if (asked.size < (int) sizeof (struct head) || asked.size > 1 << 16) die ("no such size", asked.size);
    state = READY;
    printf ("> ready\n");
    fflush (stdout);
  } else if (!strcmp (line, "go") && state == READY) {
    seen.begin = now ();
    state = me >= members - asked.senders ? SENDING : HEARING;
  } else die (line, state);
}

static void listen_to_driver (void) {
  static char text[256];
  static size_t length;
  ssize_t got = read (0, text + length, sizeof text - 1 - length);
  if (got <= 0) exit (0);
  text[length += got] = 0;
  for (char *end; (end = strchr (text, '\n')); length = strlen (text)) {
    *end = 0;
    obey (text);
    memmove (text, end + 1, strlen (end + 1) + 1);
  }
}

static cpg_handle_t join (void) {
  cpg_callbacks_t callbacks = {.cpg_deliver_fn = delivered, .cpg_confchg_fn = changed};
  struct cpg_name group = {.length = 5, .value = "group"};
  cpg_handle_t handle;
  int said = CS_ERR_TRY_AGAIN;
  for (int tries = 0; said != CS_OK; tries++) {
    if (tries == JOIN_TRIES) die ("cpg_initialize", said);
    if ((said = cpg_initialize (&handle, &callbacks)) != CS_OK) usleep (100000);
  }
  while ((said = cpg_join (handle, &group)) == CS_ERR_TRY_AGAIN) usleep (100000);
  if (said != CS_OK) die ("cpg_join", said);
  printf ("> joined\n");
  fflush (stdout);
  return handle;
}

int main (int count, char **words) {
  if (count != 3) return 2;
  me = atoi (words[1]), members = atoi (words[2]);
  cpg_handle_t handle = join ();
  struct pollfd ways[2] = {{0, POLLIN, 0}, {0, POLLIN, 0}};
  cpg_fd_get (handle, &ways[1].fd);
  for (;;) {
    struct timespec wait = {0, 1000000}, *until = state == SENDING ? &wait : NULL;
    if (state == SENDING && send_some (handle)) wait.tv_nsec = 0;
    else if (state == SENDING && asked.rate && due () > now ()) {
      uint64_t left = due () - now ();
      wait.tv_nsec = left < SECOND ? left : SECOND - 1;
    }
    if (ppoll (ways, 2, until, NULL) < 0) die ("ppoll", 0);
    if (ways[1].revents) {
      int said = cpg_dispatch (handle, CS_DISPATCH_ALL);
      if (said != CS_OK) die ("cpg_dispatch", said);
    }
    if (ways[0].revents) listen_to_driver ();
    if (state == HEARING && (int) seen.finished == asked.senders && seen.count == seen.expected) report ();
  }
}
