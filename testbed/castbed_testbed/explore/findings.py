"""Findings pages, generated: what the scripts of a corpus show, claim by claim, and what was explored without a flaw.

A page says nothing that is not replayed while it is written: every script is played, on the variant that it is about
and, as far as its steps make sense there, on `repaired`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import fill

import msgspec

from castbed.diagram import space_time_svg
from castbed.diagram.scene import scene
from castbed.history import Kind
from castbed.properties import Violation
from castbed.registry import Registry
from castbed_testbed.explore.arena import Arena
from castbed_testbed.explore.corpus import scripts_in
from castbed_testbed.explore.explored import Explored, code_of
from castbed_testbed.explore.judging import arena_of, label
from castbed_testbed.explore.replaying import ExactReplay, Replay, WatchedWorld, replay
from castbed_testbed.explore.reported import REPAIRED, Reported, explored_with, found_after
from castbed_testbed.explore.script import Account, Script, read
from castbed_testbed.explore.steps import SETTLED, words

OLD = "explored with older code"
WIDTH = 120  # letters in a line of prose
_DRAWN = (Kind.SUBMIT, Kind.DELIVER, Kind.HOLD, Kind.ATTACH, Kind.DETACH, Kind.CRASH, Kind.RESTART, Kind.LEAVE)


class Flaw(msgspec.Struct, frozen=True):
    """A script with an account of what it shows, played."""

    name: str
    script: Script
    account: Account
    played: Replay
    started: int
    repaired: Replay | None

    @property
    def protocol(self) -> str:
        return self.script.setup.protocol

    @property
    def broken(self) -> list[str]:
        """The properties that it breaks."""
        return list(dict.fromkeys(violation.property for violation in self.played.violations))

    @property
    def within_the_model(self) -> bool:
        """Whether it stays within what the paper assumes and claims."""
        return not self.account.beyond

    def on_repaired(self) -> str:
        """What the same steps do to `repaired`."""
        if self.repaired is None:
            return "there is no such variant"
        violated = sorted({label(violation) for violation in self.repaired.violations})
        done, all_ = len(self.repaired.happened), len(self.script.steps)
        steps = "the same steps" if done == all_ else f"the {done} of the {all_} steps that make sense there"
        return f"breaks {', '.join(violated)}" if violated else f"{steps} break nothing"


def flaws_in(corpus: Path, registry: Registry) -> list[Flaw]:
    """The flaws that the scripts of a folder show, by name; a script without an account shows none."""
    found = ((path.stem, read(path)) for path in scripts_in(corpus))
    return [_flaw(name, script, script.finding, registry) for name, script in found if script.finding is not None]


def _flaw(name: str, script: Script, account: Account, registry: Registry) -> Flaw:
    arena = arena_of(script, registry)
    played = ExactReplay(WatchedWorld(arena))
    started = played.world.now
    played.play(script.steps, script.settles, arena.freedoms)
    return Flaw(name, script, account, played, started, _partner(script, registry))


def _partner(script: Script, registry: Registry) -> Replay | None:
    """The steps played on `repaired`, as far as they make sense there."""
    if REPAIRED not in registry.protocols.get(script.setup.protocol, "protocol.name").variants:
        return None
    setup = msgspec.structs.replace(script.setup, variant=REPAIRED)
    return replay(Arena(setup, registry), script.steps)


def picture(flaw: Flaw) -> str:
    """The space-time diagram of what goes wrong first, with everything that moved, crashed or was delivered."""
    history = flaw.played.world.history()
    violation: Violation = flaw.played.violations[0]
    more = [event for event in history.events if event.at > flaw.started and event.kind in _DRAWN]
    shown = list(dict.fromkeys([*violation.events, *more]))
    marked = scene(history, violation.events).marked
    return space_time_svg(history, shown, f"{flaw.protocol}: {flaw.account.title}", violation.words, marked)


# --- a page ----------------------------------------------------------------------------------------------------------


class Page:
    """The findings on one protocol."""

    def __init__(
        self,
        protocol: str,
        flaws: list[Flaw],
        explored: list[Explored],
        registry: Registry,
        reported: Sequence[Reported] = (),
    ) -> None:
        self.protocol = protocol
        self.registry = registry
        self.reported = [one for one in reported if one.protocol == protocol]
        ours = [flaw for flaw in flaws if flaw.protocol == protocol]
        self.flaws = sorted(ours, key=lambda flaw: bool(flaw.account.beyond))
        self.explored = [entry for entry in explored if entry.protocol == protocol]
        self.variants = registry.protocols.get(protocol, "PROTOCOL").variants
        self.numbers = {flaw.name: number for number, flaw in enumerate(self.flaws, start=1)}

    def causes(self) -> list[str]:
        """What is wrong, within what the paper assumes; several flaws may have one cause."""
        return list(dict.fromkeys(flaw.account.cause for flaw in self.flaws if flaw.within_the_model))

    def properties(self) -> list[str]:
        return list(dict.fromkeys(name for variant in self.variants.values() for name in variant.guarantees))

    def schedules(self, variant: str) -> int:
        """How many schedules were explored of a variant, with any strategy and seed."""
        return sum(entry.schedules for entry in self.explored if entry.variant == variant)

    def is_old(self, entry: Explored) -> bool:
        """Whether the plugin has changed since it was explored."""
        return entry.variant not in self.variants or entry.code != code_of(self.registry, self.protocol, entry.variant)

    def budget(self, variant: str) -> str:
        """How many schedules were explored of a variant, in words, and whether some are of older code."""
        old = any(self.is_old(entry) for entry in self.explored if entry.variant == variant)
        return f"{_grouped(self.schedules(variant))} schedules" + f" ({OLD})" * old

    def verdict(self, name: str, variant: str) -> str:
        """What became of a property of a variant."""
        if name not in self.variants[variant].guarantees:
            return "not promised"
        breaking = [flaw for flaw in self.flaws if flaw.script.setup.variant == variant and name in flaw.broken]
        inside = [flaw for flaw in breaking if flaw.within_the_model]
        if inside:
            return f"**refuted** ({self._links(inside)})"
        if breaking:
            return f"refuted only beyond what is claimed ({self._links(breaking)})"
        if any(name in entry.broken for entry in self.explored if entry.variant == variant):
            return "broken in exploration; no script of it is kept"
        return f"survived {self.budget(variant)}"

    def _links(self, flaws: Iterable[Flaw]) -> str:
        return ", ".join(f"[{self.numbers[flaw.name]}](#{_anchor(self.heading(flaw))})" for flaw in flaws)

    def heading(self, flaw: Flaw) -> str:
        return f"{self.numbers[flaw.name]} {flaw.account.title}"

    def text(self, figures: str) -> str:
        parts = [_TOP.format(protocol=self.protocol), self._summary(), self._verdicts()]
        parts += [self._what_was_explored(), self._ten_times()]
        parts += [self._section(flaw, figures) for flaw in self.flaws]
        return "\n\n".join(part for part in parts if part) + "\n"

    def _summary(self) -> str:
        inside = sum(flaw.within_the_model for flaw in self.flaws)
        if not self.flaws:
            return "No flaw was found."
        beyond = len(self.flaws) - inside
        more = f" {beyond} more {'leaves' if beyond == 1 else 'leave'} what the paper assumes or claims." * bool(beyond)
        return f"{_counted(inside, 'flaw')}, of {_counted(len(self.causes()), 'different cause')}.{more}"

    def _verdicts(self) -> str:
        names = sorted(self.variants)
        rows = [[f"`{name}`", *(self.verdict(name, variant) for variant in names)] for name in self.properties()]
        return "## Verdicts\n\n" + _table(["property", *(f"`{name}`" for name in names)], rows)

    def _what_was_explored(self) -> str:
        if not self.explored:
            return ""
        head = ["variant", "strategy", "seed", "without", "schedules", "kinds of violation", "code of the plugin"]
        rows = [_row(entry, self.is_old(entry)) for entry in self.explored]
        return "## What was explored\n\n" + _table(head, rows)

    def _ten_times(self) -> str:
        """How long it took to find the flaws, and how long the repair was explored."""
        after = found_after(self.reported, self.protocol)
        if not after or REPAIRED not in self.variants:
            return ""
        done = explored_with(self.explored, self.protocol, REPAIRED)
        head = ["strategy", "finds its last flaw after", f"of `{REPAIRED}` were explored"]
        rows = [
            [f"`{one}`", f"{_grouped(after[one])} schedules", f"{_grouped(done.get(one, 0))} schedules"]
            for one in sorted(after)
        ]
        return "## How long it took, and how long the repair was explored\n\n" + _table(head, rows)

    def _found_by(self, flaw: Flaw) -> str:
        if not flaw.account.found_by:
            return "people; the script is played, not searched"
        after = [one.after for one in self.reported if one.script == flaw.name]
        return f"`{flaw.account.found_by}`" + "".join(f", after {_grouped(count)} schedules" for count in after)

    def _section(self, flaw: Flaw, figures: str) -> str:
        account = flaw.account
        steps = [words(step) for step in flaw.script.steps] + [SETTLED] * flaw.script.settles
        facts = {
            "Claims": ", ".join(account.claims),
            "Beyond": account.beyond,
            "Breaks": ", ".join(f"`{name}`" for name in flaw.script.expects),
            "Freedoms": "; ".join(flaw.script.needs),
            "Cause": account.cause,
            "Responsible": account.responsible,
            "Repair": account.repair,
            "Cost": account.cost,
            "Found by": self._found_by(flaw),
            "On `repaired`": flaw.on_repaired(),
        }
        lines = [f"- **{name}**: {said}" for name, said in facts.items() if said]
        shown = f"![{flaw.played.violations[0].words}]({figures}/{flaw.name}.svg)"
        script = "```text\n" + "\n".join(steps) + "\n```"
        return "\n\n".join([f"## {self.heading(flaw)}", fill(account.story, WIDTH), script, shown, "\n".join(lines)])


_TOP = """# Findings on `{protocol}`

Written by `castbed findings` from the scripts of the corpus, each of which was played for it; edit those instead.
[Exploration](../exploration.md) says how schedules are searched and scripts are read."""


_OVERVIEW = """What exploration says about each protocol. Written by `castbed findings` from the scripts of the corpus;
edit those instead."""


def _row(entry: Explored, old: bool) -> list[str]:
    without = ", ".join(f"`{name}`" for name in entry.without) or "-"
    facts = [str(entry.seed), without, _grouped(entry.schedules), str(entry.kinds)]
    return [f"`{entry.variant}`", f"`{entry.strategy}`", *facts, f"`{entry.code}`" + f" ({OLD})" * old]


def _grouped(count: int) -> str:
    return f"{count:,}".replace(",", " ")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" + "s" * (count != 1)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" if cells[0] != "---" else f"|{'|'.join(cells)}|" for cells in lines)


def _anchor(heading: str) -> str:
    """What links to a heading name."""
    kept = (letter for letter in heading.lower() if letter.isalnum() or letter in "_- ")
    return "".join(kept).replace(" ", "-")


# --- all pages -------------------------------------------------------------------------------------------------------


def overview(pages: list[Page]) -> str:
    """One table over all protocols, and one over all flaws."""
    verdicts = [
        [f"[`{page.protocol}`]({page.protocol}.md)", f"`{variant}`", _refuted(page, variant), page.budget(variant)]
        for page in pages
        for variant in sorted(page.variants)
    ]
    flaws = [
        [
            f"[{page.protocol} {page.numbers[flaw.name]}]({page.protocol}.md#{_anchor(page.heading(flaw))})",
            flaw.account.title, ", ".join(flaw.account.claims), ", ".join(f"`{name}`" for name in flaw.broken),
            flaw.account.cause + (f" (beyond: {flaw.account.beyond})" if flaw.account.beyond else ""),
        ]
        for page in pages
        for flaw in page.flaws
    ]  # fmt: skip
    first = _table(["protocol", "variant", "refuted", "explored"], verdicts)
    second = _table(["", "flaw", "claims", "breaks", "cause"], flaws)
    return "\n\n".join(["# Findings", _OVERVIEW, first, second]) + "\n"


def _refuted(page: Page, variant: str) -> str:
    of = [flaw for flaw in page.flaws if flaw.script.setup.variant == variant and flaw.within_the_model]
    causes = dict.fromkeys(flaw.account.cause for flaw in of)
    broken = sorted({name for flaw in of for name in flaw.broken})
    if not broken:
        return "nothing"
    return f"{', '.join(f'`{name}`' for name in broken)}: {_counted(len(causes), 'cause')}"


def findings(
    corpus: Path, explored: list[Explored], registry: Registry, figures: str, reported: Sequence[Reported] = ()
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The pages and the pictures, by file name; `figures` is the way from a page to the pictures."""
    flaws = flaws_in(corpus, registry)
    names = sorted({flaw.protocol for flaw in flaws} | {entry.protocol for entry in explored})
    pages = [Page(name, flaws, explored, registry, reported) for name in names]
    texts = {f"{page.protocol}.md": page.text(figures) for page in pages}
    return texts | {"index.md": overview(pages)}, {f"{flaw.name}.svg": picture(flaw) for flaw in flaws}
