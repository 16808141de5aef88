"""Lanes that continue for long while the others of their group wait are set aside, and finished together.

Setting a lane aside costs its share of the work of a group, because its sample runs again later, from the beginning, in
a group of samples that were set aside in the same loop, which sets none aside. So a lane is set aside when a loop has
kept the others waiting for as long as that. The results of a lane do not depend on its neighbours: they are the same to
the bit.

The frame holds the work of a group so far; for each loop with a condition the cost of its iterations for less than half
of the lanes since it began; and, with one bit for each lane, which ones are set aside, in all and in which loops.
"""

from __future__ import annotations

from jaxmbs.programs.backends.cpu.vector_code import following_samples, lane_numbers, splat
from jaxmbs.programs.backends.llvm.code import AbstractCode
from jaxmbs.programs.backends.llvm.plan import Plan
from jaxmbs.programs.graph.liveness import Liveness
from jaxmbs.programs.graph.nodes import TRUTH, Loop, Region

# Largest number of lists in which samples wait that were set aside; further loops with a condition share the lists.
MAX_LISTS = 4
# Work at which the account of a group begins whose samples were set aside before: so large that no lane is set aside again.
ENDLESS = 1 << 50


class Patience:
    """LLVM code that sets lanes aside for later, in the functions of a program with more than one lane.

    Attributes:
        loops: id of a loop with a condition ↦ number of its list.
    """

    def __init__(self, plan: Plan):
        self.plan, self.lanes, self.bits = plan, plan.lanes, f"i{plan.lanes}"
        self.loops: dict[Loop, int] = {}

    def before_loop(self, code: AbstractCode, loop: Loop) -> None:
        """Write the lines before a loop with a condition, which reset the loop's account of waiting."""
        code.line(f"store i64 0, ptr {code.slot(('waited', loop))}")

    def continuing_lanes(self, code: AbstractCode, loop: Loop, mask: str) -> str:
        """Return the mask of the lanes that take one more iteration of a loop: `mask` without the lanes set aside."""
        truths, bits = code.module.vector(TRUTH), self.bits
        number = self.loops.setdefault(loop, len(self.loops) % MAX_LISTS)
        own, waited = code.slot(("aside", number)), code.slot(("waited", loop))
        on = code.let(f"bitcast {truths} {mask} to {bits}")
        price = cost(self.plan.live, loop.body)
        left = code.let(f"call fastcc {bits} @go.on(ptr %frame, ptr {waited}, ptr {own}, {bits} {on}, i64 {price})")
        return code.let(f"bitcast {bits} {left} to {truths}")

    def decision(self) -> str:
        """Return the LLVM function that updates the accounts of a group, and returns the mask of lanes that go on."""
        bits = self.bits
        return f"""\
define internal fastcc {bits} @go.on(ptr %frame, ptr %waited.at, ptr %own.at, {bits} %on, i64 %cost) #0 {{
{self._make_address("work", "work.at")}
{self._make_address("aside", "aside.at")}
  %aside = load {bits}, ptr %aside.at
  %others = xor {bits} %aside, -1
  %now = and {bits} %on, %others
  %count = call {bits} @{self._bit_counter()}({bits} %now)
  %number = zext {bits} %count to i64
  %none = icmp eq i64 %number, 0
  %are.many = icmp uge i64 %number, {self.lanes // 2}
  %account = select i1 %are.many, ptr %work.at, ptr %waited.at
  %before = load i64, ptr %account
  %added = select i1 %none, i64 0, i64 %cost
  %after = add i64 %before, %added
  store i64 %after, ptr %account
  %work = load i64, ptr %work.at
  %waited = load i64, ptr %waited.at
  %kept = mul i64 %waited, {self.lanes}
  %again = mul i64 %work, %number
  %over = icmp ugt i64 %kept, %again
  %are.few = xor i1 %are.many, true
  %due = and i1 %over, %are.few
  %more = select i1 %due, {bits} %now, {bits} 0
  %all = or {bits} %aside, %more
  store {bits} %all, ptr %aside.at
  %own = load {bits}, ptr %own.at
  %new = or {bits} %own, %more
  store {bits} %new, ptr %own.at
  %left = xor {bits} %now, %more
  ret {bits} %left
}}"""

    def memory(self) -> list[str]:
        """Return lines at the start of the kernel that allocate the lists, for less than two groups each."""
        count = self._list_count
        return [
            f"  %lists = alloca [{count * 2 * self.lanes} x i64], align 64",
            f"  %waiting = alloca [{count} x i64], align 64",
            *(f"  %list{k} = getelementptr i64, ptr %lists, i64 {k * 2 * self.lanes}" for k in range(count)),
            *(f"  %waiting{k} = getelementptr i64, ptr %waiting, i64 {k}" for k in range(count)),
            *(f"  store i64 0, ptr %waiting{k}" for k in range(count)),
            *(self._make_address(("aside", k), f"own{k}") for k in range(count)),
            self._make_address("work", "work.at"),
            self._make_address("aside", "aside.at"),
        ]

    def groups(self) -> tuple[list[str], list[str]]:
        """Return blocks of the kernel that choose the samples of the next group, %l, and the lines after it.

        The next group has the next samples, or those of a list as soon as they fill a group, and of all lists at the end.
        """
        return [
            *self._choose_samples(),
            *self._take_new_samples(),
            *self._take_waiting_samples(),
            *self._set_group(),
        ], self._store_waiting_samples()

    def _choose_samples(self) -> list[str]:
        """Return blocks that decide if the next group has new samples or those of a list."""
        return [
            "group:",
            "  %base = phi i64 [ %first, %start ], [ %next, %run ]",
            *self._find_list(self.lanes, "full"),
            f"  %is.full = icmp ult i64 %full, {self._list_count}",
            "  br i1 %is.full, label %again, label %ordinary",
            "ordinary:",
            "  %more = icmp slt i64 %base, %last",
            "  br i1 %more, label %fresh, label %remains",
            "remains:",
            *self._find_list(1, "some"),
            f"  %is.some = icmp ult i64 %some, {self._list_count}",
            "  br i1 %is.some, label %again, label %done",
        ]

    def _find_list(self, least: int, name: str) -> list[str]:
        """Return lines that make %name: the first list with at least `least` samples, else the number of lists."""
        lines, found = [], str(self._list_count)
        for k in reversed(range(self._list_count)):
            to = name if k == 0 else f"{name}.{k}"
            lines += [
                f"  %{name}.count{k} = load i64, ptr %waiting{k}",
                f"  %{name}.long{k} = icmp uge i64 %{name}.count{k}, {least}",
                f"  %{to} = select i1 %{name}.long{k}, i64 {k}, i64 {found}",
            ]
            found = f"%{to}"
        return lines

    def _take_new_samples(self) -> list[str]:
        """Return the block that takes samples that have not run yet as the next group."""
        return ["fresh:", *following_samples(self.plan.module, "l.fresh"), f"  %onward = add i64 %base, {self.lanes}",
                "  br label %address"]  # fmt: skip

    def _take_waiting_samples(self) -> list[str]:
        """Return lines that take the next group from the front of a list, filled up by its first sample."""
        module, lanes = self.plan.module, self.lanes
        wide, truths = module.wide("i64"), module.vector(TRUTH)
        less = module.declare("i64", "llvm.usub.sat.i64", ["i64", "i64"])
        return [
            "again:",
            "  %chosen = phi i64 [ %full, %group ], [ %some, %remains ]",
            f"  %distance = mul i64 %chosen, {2 * lanes}",
            "  %front.at = getelementptr i64, ptr %lists, i64 %distance",
            f"  %rear.at = getelementptr i64, ptr %front.at, i64 {lanes}",
            f"  %front = load {wide}, ptr %front.at, align 8",
            f"  %rear = load {wide}, ptr %rear.at, align 8",
            f"  store {wide} %rear, ptr %front.at, align 8",
            "  %count.at = getelementptr i64, ptr %waiting, i64 %chosen",
            "  %count = load i64, ptr %count.at",
            f"  %rest.count = call i64 @{less}(i64 %count, i64 {lanes})",
            "  store i64 %rest.count, ptr %count.at",
            f"  %one = extractelement {wide} %front, i64 0",
            *splat(lanes, "one", "ones"),
            *splat(lanes, "count", "counts"),
            f"  %in = icmp ult {wide} <{lane_numbers(lanes)}>, %counts",
            f"  %l.again = select {truths} %in, {wide} %front, {wide} %ones",
            "  br label %address",
        ]

    def _set_group(self) -> list[str]:
        """Return the block after either choice: it sets the samples of the group, and its accounts to their start."""
        wide = self.plan.module.wide("i64")
        return [
            "address:",
            f"  %l = phi {wide} [ %l.again, %again ], [ %l.fresh, %fresh ]",
            "  %next = phi i64 [ %base, %again ], [ %onward, %fresh ]",
            f"  %begun = phi i64 [ {ENDLESS}, %again ], [ {cost(self.plan.live, self.plan.program.root)}, %fresh ]",
            "  store i64 %begun, ptr %work.at",
            f"  store {self.bits} 0, ptr %aside.at",
            *(f"  store {self.bits} 0, ptr %own{k}" for k in range(self._list_count)),
        ]

    def _store_waiting_samples(self) -> list[str]:
        """Return lines after a group that add the samples set aside to the lists."""
        module, bits, lines = self.plan.module, self.bits, []
        wide, truths = module.wide("i64"), module.vector(TRUTH)
        write = module.declare("void", f"llvm.masked.compressstore.{module.suffix('i64')}", [wide, "ptr", truths])
        for k in range(self._list_count):
            lines += [
                f"  %aside{k} = load {bits}, ptr %own{k}",
                f"  %mask{k} = bitcast {bits} %aside{k} to {truths}",
                f"  %length{k} = load i64, ptr %waiting{k}",
                f"  %end{k} = getelementptr i64, ptr %list{k}, i64 %length{k}",
                f"  call void @{write}({wide} %l, ptr %end{k}, {truths} %mask{k})",
                f"  %bits{k} = call {bits} @{self._bit_counter()}({bits} %aside{k})",
                f"  %number{k} = zext {bits} %bits{k} to i64",
                f"  %longer{k} = add i64 %length{k}, %number{k}",
                f"  store i64 %longer{k}, ptr %waiting{k}",
            ]
        return lines

    @property
    def _list_count(self) -> int:
        """Number of lists of waiting samples."""
        return min(MAX_LISTS, len(self.loops))

    def _make_address(self, key: object, name: str) -> str:
        """Return a line that makes %name, the address of a value in the frame."""
        return f"  %{name} = getelementptr i8, ptr %frame, i64 {self.plan.frame.place(key)}"

    def _bit_counter(self) -> str:
        """Return the name of LLVM's intrinsic that counts the bits of a mask."""
        return self.plan.module.declare(self.bits, f"llvm.ctpop.{self.bits}", [self.bits])


def cost(live: Liveness, region: Region) -> int:
    """Return the number of nodes of a region, plus those of its counted loops times their lengths; no other loops."""
    nodes = live.nodes(region)
    loops = [x.loop for x in nodes if x.op == "loop" and x.loop.condition is None]
    return len(nodes) + sum(loop.length * cost(live, loop.body) for loop in loops)
