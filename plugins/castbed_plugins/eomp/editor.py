"""The collaborative line editor of the paper, without its windows (spec 1): one replicated document per group.

It runs on every protocol that delivers in total order, and contains no code for mobility. What its user writes is shown
when it is delivered, at the author as everywhere else. One line is edited at a time, the later transaction wins, and
characters are never merged.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from castbed import DEFAULT_GROUP, Application, ApplicationPlugin, ByteSize, Duration, Group, Message, Setting
from castbed.errors import ConfigurationError, ContractError
from castbed_plugins.eomp.document import TOP, Document, LineId, Op, Outcome, Transaction, TxnId
from castbed_plugins.eomp.founding import is_founder
from castbed_plugins.eomp.replica import Ask, Edit, Piece, Replica, Said, decoded, encoded, snapshot_pieces

PENDING_MAX = 10_000  # transactions of one user that wait for their delivery
ASKS_MAX = 100  # questions of one latecomer: more than any outage in which it makes sense to wait
SECOND = 1_000_000_000
SESSION_BITS = 32


Doing = Literal["replace", "insert", "delete", "undo", "connect", "disconnect"]
SCRIBBLES: tuple[Doing, ...] = ("insert", "insert", "replace", "replace", "delete")  # so that documents grow slowly
SCRIBBLED_LINES = 64  # random edits are near the top, where users meet


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that a user does. `line` counts the lines shown, from 1; 0 is the place above the first."""

    node: str
    at: Duration
    do: Doing
    line: int = 0
    text: str = ""
    group: int = DEFAULT_GROUP


class EditorOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`steps` is a script, `rate` random transactions per second and user; who is in `opens` opens its documents then.

    `founders` begin with the empty document (left out: whom the topology lists); the others ask for theirs, again after
    `patience`. Members answer one after the other, `answer_pause` apart, until one has; `piece` is what an answer sends
    at a time.
    """

    steps: tuple[Step, ...] = ()
    rate: float = 0.0
    opens: dict[str, Duration] = {}
    founders: tuple[str, ...] | None = None
    patience: Duration = Duration(2 * SECOND)
    answer_pause: Duration = Duration(200_000_000)
    piece: ByteSize = ByteSize(32 * 1024)


class Status(msgspec.Struct, frozen=True):
    """What an editor shows of its connection: transactions that are not in yet, and own ones that are not out yet."""

    connected: bool
    up_to_date: bool
    missed: int
    pending: int


class Editor(Application):
    """One user's editor."""

    options: EditorOptions

    def __init__(self, setting: Setting, options: EditorOptions | None = None) -> None:
        super().__init__(setting, options or EditorOptions())
        self.replicas: dict[Group, Replica] = {}
        self.connected = True
        self.foreign = 0
        self._session = setting.random.getrandbits(SESSION_BITS)
        self._counter = 0
        self._unsent: list[tuple[Group, TxnId]] = []
        self._set_aside: list[tuple[Group, Said]] = []
        self._groups: dict[Group, None] = {}
        self._is_open = False
        _check(setting, self.options)

    # --- what a user does --------------------------------------------------------------------------------------------

    def go(self, op: Op, line: LineId, text: str = "", group: Group = DEFAULT_GROUP) -> TxnId:
        """Make the modification of a line a transaction; it is pending until its own delivery is seen."""
        replica = self.replicas[group]
        if "\n" in text:
            raise ContractError("a transaction is about one line")
        if line == TOP and op is not Op.INSERT_AFTER:
            raise ContractError("above the first line one can only insert")
        if line != TOP and not replica.knows(line):
            raise ContractError(f"there is no line {line}")
        if len(replica.pending) >= PENDING_MAX:
            raise ContractError(f"{PENDING_MAX} transactions wait for their delivery already")
        self._counter += 1
        txn = TxnId(self.me, self._session, self._counter)
        replica.pending[txn] = Transaction(txn, op, line, replica.revision(line), text)
        self._unsent.append((group, txn))
        self._send_unsent()
        return txn

    def undo(self, txn: TxnId, group: Group = DEFAULT_GROUP) -> TxnId | None:
        """A new transaction that takes an older one back; None when that one is not in the history or did nothing."""
        document = self.replicas[group].document
        changes = document.history if document is not None else ()
        change = next((change for change in changes if change.transaction.txn == txn), None)
        if change is None or change.outcome is Outcome.NOTHING:
            return None
        if change.line == txn:
            return self.go(Op.DELETE, txn, group=group)
        return self.go(Op.REPLACE, change.line, change.before, group)

    def write(self, text: str, group: Group = DEFAULT_GROUP) -> None:
        """Import plain text: each of its lines becomes a line at the end of what is shown."""
        document = self.replicas[group].document
        shown = document.lines() if document is not None else []
        after = shown[-1].line if shown else TOP
        for line in text.splitlines():
            after = self.go(Op.INSERT_AFTER, after, line, group)

    def disconnect(self) -> None:
        """Out of range, at the user's wish: nothing goes out or comes in, writing stays possible."""
        self.connected = False

    def connect(self) -> None:
        """In range again: first what was missed comes in, then what was written goes out."""
        self.connected = True
        missed, self._set_aside = self._set_aside, []
        for group, said in missed:
            self._hear(group, said)
        self._send_unsent()

    # --- what a user sees --------------------------------------------------------------------------------------------

    def text(self, group: Group = DEFAULT_GROUP) -> str:
        """The document as plain text; empty while it is not here."""
        document = self.replicas[group].document
        return document.text() if document is not None else ""

    def state_of(self, txn: TxnId, group: Group = DEFAULT_GROUP) -> str:
        """`pending`, `confirmed`, or `overwrote` when an own transaction replaced what its author had not seen."""
        replica = self.replicas[group]
        if txn in replica.pending:
            return "pending"
        return "overwrote" if txn in replica.overwrote else "confirmed"

    def status(self, group: Group = DEFAULT_GROUP) -> Status:
        replica = self.replicas[group]
        missed = replica.kept + sum(isinstance(said, Edit) and at == group for at, said in self._set_aside)
        here = self.connected and replica.document is not None
        return Status(self.connected, here and not missed, missed, len(replica.pending))

    def journal(self) -> bytes:
        """What has to survive a restart of the editor: its pending transactions."""
        pending = [(group, transaction) for group, r in self.replicas.items() for transaction in r.pending.values()]
        return msgspec.msgpack.encode(pending)

    def restore(self, journal: bytes) -> None:
        """Take up the journal of an earlier life, under the identities of that life."""
        for group, transaction in msgspec.msgpack.decode(journal, type=list[tuple[Group, Transaction]]):
            self._open(group).pending[transaction.txn] = transaction
            self._unsent.append((group, transaction.txn))
        self._send_unsent()

    # --- what the node says ------------------------------------------------------------------------------------------

    def started(self) -> None:
        name = self.setting.topology.name(self.me)
        opens = self.options.opens.get(name, Duration(0))
        if opens > self.now:
            self.wake(("open",), opens - self.now)
        else:
            self._woken_to_open()
        for at, step in enumerate(self.options.steps):
            if step.node == name and step.at >= self.now:
                self.wake(("step", at), step.at - self.now)
        if self.options.rate > 0:
            self._rest()

    def joined(self, group: Group) -> None:
        self._groups[group] = None
        if self._is_open:
            self._open(group)

    def left(self, group: Group) -> None:
        self._groups.pop(group, None)
        self.replicas.pop(group, None)

    def delivered(self, message: Message) -> None:
        said = decoded(message.payload)
        if said is None:
            self.foreign += 1
        elif not self.connected:
            self._set_aside.append((message.group, said))
        else:
            self._hear(message.group, said)

    def refused(self, message: Message, reason: str) -> None:  # noqa: ARG002 (whatever it is, it is tried again)
        said = decoded(message.payload)
        if isinstance(said, Edit):
            self._unsent.append((message.group, said.transaction.txn))
            self.wake(("send",), self.options.patience)

    def woken(self, name: Any) -> None:
        what, *about = name
        getattr(self, f"_woken_to_{what}")(*about)

    # --- opening and catching up -------------------------------------------------------------------------------------

    def _woken_to_open(self) -> None:
        self._is_open = True
        for group in self._groups:
            self._open(group)

    def _open(self, group: Group) -> Replica:
        if group not in self.replicas:
            founds = is_founder(self.setting, self.options.founders, group, self.now)
            self.replicas[group] = Replica(Document() if founds else None)
            if not founds:
                self._woken_to_ask(group, 1)
        return self.replicas[group]

    def _woken_to_ask(self, group: Group, attempt: int) -> None:
        replica = self.replicas.get(group)
        if replica is not None and replica.document is None and attempt <= ASKS_MAX:
            if self.connected:
                self.submit(encoded(Ask(TxnId(self.me, self._session, attempt))), group)
            self.wake(("ask", group, attempt + 1), self.options.patience)

    def _hear(self, group: Group, said: Said) -> None:
        replica = self.replicas.get(group)
        if replica is None:
            return
        if isinstance(said, Edit):
            replica.edit(said.transaction)
        elif isinstance(said, Ask):
            self._asked(group, replica, said.request)
        elif said.request.author == self.me:
            self._take(replica, said)
        else:
            replica.answered.add(said.request)

    def _asked(self, group: Group, replica: Replica, request: TxnId) -> None:
        if request.author == self.me:
            replica.own_question()
        elif replica.document is not None:
            alike = self.setting.topology.numbers(self.setting.topology.role(self.me))
            self.wake(("answer", group, request), alike.index(self.me) * self.options.answer_pause)

    def _woken_to_answer(self, group: Group, request: TxnId) -> None:
        """Answer, unless somebody else was quicker."""
        replica = self.replicas.get(group)
        if replica is None or replica.document is None or request in replica.answered or not self.connected:
            return
        for piece in snapshot_pieces(replica.document, request, self.me, self.options.piece):
            self.submit(encoded(piece), group)

    def _take(self, replica: Replica, piece: Piece) -> None:
        if replica.piece(piece):
            self._send_unsent()

    # --- sending -----------------------------------------------------------------------------------------------------

    def _woken_to_send(self) -> None:
        self._send_unsent()

    def _send_unsent(self) -> None:
        """Send what was written, as far as the user is connected and its document is here."""
        unsent, self._unsent = self._unsent, []
        for group, txn in unsent:
            replica = self.replicas.get(group)
            if replica is None or txn not in replica.pending:
                continue
            if self.connected and replica.document is not None:
                self.submit(encoded(Edit(replica.pending[txn])), group)
            else:
                self._unsent.append((group, txn))

    # --- a user without hands ----------------------------------------------------------------------------------------

    def _woken_to_step(self, at: int) -> None:
        step = self.options.steps[at]
        if step.do in ("connect", "disconnect"):
            getattr(self, step.do)()
        elif step.group in self.replicas:
            self._edit(step)

    def _edit(self, step: Step) -> None:
        document = self.replicas[step.group].document
        shown = document.lines() if document is not None else []
        line = shown[min(step.line, len(shown)) - 1] if step.line and shown else None
        if step.do == "insert":
            self.go(Op.INSERT_AFTER, line.line if line else TOP, step.text, step.group)
        elif line is not None and step.do == "undo":
            self.undo(line.revision, step.group)
        elif line is not None:
            self.go(Op(step.do), line.line, step.text, step.group)

    def _rest(self) -> None:
        """Until the next random transaction, while the experiment lasts."""
        delay = int(self.setting.random.expovariate(self.options.rate) * SECOND)
        if self.now + delay < self.setting.duration:
            self.wake(("scribble",), delay)

    def _woken_to_scribble(self) -> None:
        random = self.setting.random
        for group in self.replicas:
            name = self.setting.topology.name(self.me)
            line, text = random.randrange(SCRIBBLED_LINES), f"{name} {self._counter + 1}"
            self._edit(Step(name, Duration(self.now), random.choice(SCRIBBLES), line, text, group))
        self._rest()


def _check(setting: Setting, options: EditorOptions) -> None:
    names = {node.name for node in setting.topology.nodes}
    wanted = [(f"steps[{at}].node", step.node) for at, step in enumerate(options.steps)]
    wanted += [(f"opens.{name}", name) for name in options.opens]
    wanted += [("founders", name) for name in options.founders or ()]
    for key, name in wanted:
        if name not in names:
            raise ConfigurationError(f"application.options.{key}", f"there is no node {name!r}")


EDITOR = ApplicationPlugin("editor", "A document of lines that all members of a group edit", Editor, EditorOptions)
