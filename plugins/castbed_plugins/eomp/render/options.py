"""What an experiment may set about the renderer."""

from __future__ import annotations

from typing import Literal

import msgspec

from castbed import DEFAULT_GROUP, ByteSize, Duration, Setting
from castbed.errors import ConfigurationError
from castbed_plugins.eomp.render.caster import FRAMES, IMAGE_SIDE, cast
from castbed_plugins.eomp.render.volume import SIDE, SLICES, Volume, head

SECOND = 1_000_000_000


class Timed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something happens at a node, then."""

    node: str
    at: Duration


class Submission(Timed, frozen=True):
    """The client of this node submits the task."""


class Shift(Timed, frozen=True):
    """One entity of the node leaves or joins."""

    do: Literal["leave", "join"]


class Load(Timed, frozen=True):
    """The node has this load from then on."""

    load: float


class RenderOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The task, what it costs, and who does what when.

    `frame_cost` is the virtual time that one entity needs for one frame. With `draw` frames are really cast and sent;
    without, as many bytes of nothing are. `results` go to the client alone, or to the group where a protocol cannot
    address one member. The profile `paper` does literally what the paper says; `hardened` names the entity that leaves
    and shares a task among those only who were there when its first part came.
    """

    tasks: tuple[Submission, ...] = ()
    shifts: tuple[Shift, ...] = ()
    loads: tuple[Load, ...] = ()
    horse_power: dict[str, int] = {}
    founders: tuple[str, ...] | None = None
    group: int = DEFAULT_GROUP
    profile: Literal["hardened", "paper"] = "hardened"
    results: Literal["group", "unicast"] = "group"
    draw: bool = False
    frames: int = FRAMES
    image_side: int = IMAGE_SIDE
    slices: int = SLICES
    side: int = SIDE
    fragment: ByteSize = ByteSize(16 * 1024)
    frame_cost: Duration = Duration(SECOND)
    patience: Duration = Duration(10 * SECOND)
    upper: float = 4.0
    lower: float = 2.0

    def power_of(self, name: str) -> int:
        """How many entities the host of this name has."""
        return self.horse_power.get(name, 1)

    def volume(self) -> Volume:
        """The volume of the task: the head, or nothing of the same size."""
        if self.draw:
            return head(self.slices, self.side)
        return Volume(self.slices, self.side, bytes(self.slices * self.side * self.side))

    def image(self, volume: Volume, frame: int) -> bytes:
        """One frame of the task."""
        if self.draw:
            return cast(volume, frame, self.frames, self.image_side)
        return bytes(self.image_side * self.image_side)


def check(setting: Setting, options: RenderOptions) -> None:
    """Refuse nodes that are not there and hosts with fewer than no entities."""
    names = {node.name for node in setting.topology.nodes}
    wanted = [(key, entry.node) for key in ("tasks", "shifts", "loads") for entry in getattr(options, key)]
    wanted += [("horse_power", name) for name in options.horse_power]
    wanted += [("founders", name) for name in options.founders or ()]
    for key, name in wanted:
        if name not in names:
            raise ConfigurationError(f"application.options.{key}", f"there is no node {name!r}")
    if min(options.horse_power.values(), default=0) < 0:
        raise ConfigurationError("application.options.horse_power", "is 0 or more")
    if options.lower >= options.upper:
        raise ConfigurationError("application.options.lower", "has to be below the upper threshold")
