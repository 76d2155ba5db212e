"""Makes an interface part of an ad hoc cell, or a monitor, over nl80211; says in one sentence why it cannot."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import Any, NamedTuple

from pyroute2 import IPRoute
from pyroute2.iwutil import IW, AsyncIW
from pyroute2.netlink import NLM_F_ACK, NLM_F_REQUEST
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.nl80211 import NL80211_NAMES, nl80211cmd

from castbed.errors import UnavailableError
from castbed_adapters.wifi.options import WifiOptions

IBSS, MONITOR = 1, 6  # interface types of nl80211
IFF_UP = 0x01
WIDTH_20_NOHT = 0
RATE_UNIT = 100_000  # bit/s
_U32 = Struct("=I")

Request = Callable[[Any], Any]


class State(NamedTuple):
    """What an interface is: its type, and whether it is up."""

    kind: int
    up: bool


# --- messages --------------------------------------------------------------------------------------------------------


def _message(command: str, index: int, *attributes: list[Any]) -> Any:
    message = nl80211cmd()
    message["cmd"] = NL80211_NAMES[f"NL80211_CMD_{command}"]
    named = [["IFINDEX", index], *attributes]
    message["attrs"] = [[f"NL80211_ATTR_{name}", value] for name, value in named]
    return message


def ask_message(index: int) -> Any:
    """What is this interface?"""
    return _message("GET_INTERFACE", index)


def type_message(index: int, kind: int) -> Any:
    """Make the interface one of this type."""
    return _message("SET_INTERFACE", index, ["IFTYPE", kind])


def join_message(index: int, options: WifiOptions) -> Any:
    """Enter the ad hoc cell, or begin it; on exactly this channel, so that all meet."""
    attributes: list[list[Any]] = [
        ["SSID", options.ssid],
        ["WIPHY_FREQ", options.frequency],
        ["FREQ_FIXED", None],
        ["CHANNEL_WIDTH", WIDTH_20_NOHT],
    ]
    if options.bssid:
        attributes.append(["MAC", options.bssid])
    if options.multicast_rate is not None:
        attributes.append(["MCAST_RATE", _U32.pack(options.multicast_rate // RATE_UNIT)])
    return _message("JOIN_IBSS", index, *attributes)


def leave_message(index: int) -> Any:
    return _message("LEAVE_IBSS", index)


def tune_message(index: int, frequency: int) -> Any:
    """Put a monitor on a channel."""
    return _message("SET_WIPHY", index, ["WIPHY_FREQ", frequency], ["CHANNEL_WIDTH", WIDTH_20_NOHT])


# --- carrying them out -----------------------------------------------------------------------------------------------


class _QuietAsyncIW(AsyncIW):  # type: ignore[misc]  # pyroute2 has no types
    """Says what is missing in its error only, not in the log as well."""

    module_err_level = "debug"


class _QuietIW(IW):  # type: ignore[misc]
    async_class = _QuietAsyncIW


class Radio:
    """One wireless interface, and what it was before anything was done to it.

    `request` sends an nl80211 message and returns the answers, `set_link` brings the interface `up` or `down`, `is_up`
    tells which it is.
    """

    def __init__(
        self,
        name: str,
        index: int,
        request: Request,
        set_link: Callable[[int, str], None],
        is_up: Callable[[int], bool],
    ) -> None:
        self.name, self.index = name, index
        self._request, self._set_link, self._is_up = request, set_link, is_up
        self._before = self._state()

    def _state(self) -> State:
        what = "be asked what it is"
        answer = self._try(what, lambda: self._request(ask_message(self.index)))[0]
        return State(answer.get_attr("NL80211_ATTR_IFTYPE"), self._try(what, lambda: self._is_up(self.index)))

    def join_cell(self, options: WifiOptions) -> None:
        self._become(State(IBSS, True), "ad hoc mode")
        what = f"join the cell {options.ssid!r} at {options.frequency} MHz"
        self._try(what, lambda: self._request(join_message(self.index, options)))

    def watch(self, frequency: int) -> None:
        """Monitor mode on a channel."""
        self._become(State(MONITOR, True), "monitor mode")
        self._try(f"go to {frequency} MHz", lambda: self._request(tune_message(self.index, frequency)))

    def restore(self) -> None:
        """Be again what it was, out of the cell; what is that already is left alone, and so is what is gone."""
        with suppress(UnavailableError):
            now = self._state()
            if now.kind == IBSS:
                self._leave_cell()
            if now != self._before:
                self._become(self._before, "its former mode")

    def _leave_cell(self) -> None:
        """Leave; who is in none need not."""
        with suppress(NetlinkError):
            self._request(leave_message(self.index))

    def _become(self, state: State, mode: str) -> None:
        """Types change only while the interface is down; it goes up again also if its type does not change."""
        self._try("be taken down", lambda: self._set_link(self.index, "down"))
        try:
            self._try(f"go into {mode}", lambda: self._request(type_message(self.index, state.kind)))
        finally:
            if state.up:
                self._try("be brought up", lambda: self._set_link(self.index, "up"))

    def _try(self, what: str, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except NetlinkError as error:
            raise UnavailableError(explained(self.name, what, error.code)) from None


def explained(name: str, what: str, code: int) -> str:
    """Why the interface could not, and what would help."""
    reason = {
        errno.EPERM: "that needs root (CAP_NET_ADMIN)",
        errno.EACCES: "that needs root (CAP_NET_ADMIN)",
        errno.ENODEV: "it is no wireless interface, or is gone",
        errno.EOPNOTSUPP: "its driver cannot (`iw phy` lists what it can)",
        errno.EBUSY: "something else uses it (NetworkManager, wpa_supplicant?): have that let go of it",
        errno.EINVAL: "its driver or the regulatory domain refuses these settings (`iw reg get`, `iw phy`)",
        errno.EALREADY: "it is in a cell already: leave that first",
        errno.ERFKILL: "its transmitter is switched off (`rfkill list`)",
    }.get(code, errno.errorcode.get(code, str(code)))
    return f"the interface {name!r} cannot {what}: {reason}"


def open_radio(name: str, index: int) -> Radio:
    """The radio behind an interface; UnavailableError where there is none. Nothing is open between what it is asked."""
    return Radio(name, index, _request, _set_link, _is_up)


def _request(message: Any) -> Any:
    """The kernel's answers; UnavailableError where it has no wireless at all."""
    try:
        asking = _QuietIW()
    except NetlinkError as error:
        if error.code != errno.ENOENT:
            raise
        problem = "this kernel has no nl80211: load cfg80211 and the driver of a wireless interface"
        raise UnavailableError(f"{problem}, or leave `ssid` and `frequency` out") from None
    with asking:
        return tuple(asking.nlm_request(message, msg_type=asking.prid, msg_flags=NLM_F_REQUEST | NLM_F_ACK))


def _is_up(index: int) -> bool:
    with IPRoute() as routes:
        return bool(routes.link("get", index=index)[0]["flags"] & IFF_UP)


def _set_link(index: int, state: str) -> None:
    with IPRoute() as routes:
        routes.link("set", index=index, state=state)
