"""The distributed volume renderer of the paper: the volume, ray casting, sharing of frames, the application."""

from castbed_plugins.eomp.render.application import RENDER, Renderer
from castbed_plugins.eomp.render.caster import cast
from castbed_plugins.eomp.render.options import RenderOptions
from castbed_plugins.eomp.render.schedule import Decision, Entity, Roster, Thresholds, share
from castbed_plugins.eomp.render.volume import Volume, head

__all__ = [
    "RENDER",
    "Decision",
    "Entity",
    "RenderOptions",
    "Renderer",
    "Roster",
    "Thresholds",
    "Volume",
    "cast",
    "head",
    "share",
]
