"""The lines of one function for a vector of samples."""

from __future__ import annotations

from jaxmbs.programs.backends.llvm.code import AbstractCode
from jaxmbs.programs.backends.llvm.text import has_no_sign
from jaxmbs.programs.graph.nodes import INTEGER


class VectorCode(AbstractCode):
    """Writes a function whose values are vectors with a lane for each sample, or scalars for a single sample."""

    def is_unsigned(self, node):
        """Return True if the sign bit of a value is never set, not even that of NaN, as far as is known."""
        return node.serial in self.unsigned or has_no_sign(node)

    def _pointers(self, key, distance):
        """Return the addresses of all lanes in a buffer, a distance in bytes further."""
        integers = self.module.vector(INTEGER)
        name = ("addresses", key)
        if name not in self.addresses:
            self.addresses[name] = self.reload(key, INTEGER)
        moved = self.let(f"add {integers} {self.addresses[name]}, {distance}")
        return self.let(f"inttoptr {integers} {moved} to {self.module.wide(self.module.pointer)}")

    def _gather(self, pointers, scalar):
        """Return the scalars at the addresses of all lanes, in a vector."""
        module = self.module
        if module.lanes == 1:
            return self.let(f"load {scalar}, {module.pointer} {pointers}")
        kind, bits = module.wide(scalar), module.wide("i1")
        name = f"llvm.masked.gather.{module.suffix(scalar)}.{module.suffix('ptr')}"
        module.declare(kind, name, [module.wide("ptr"), "i32 immarg", bits, kind])
        size = {"double": 8, "float": 4, "i64": 8, "i32": 4, "i8": 1}.get(scalar, 1)
        return self.let(
            f"call {kind} @{name}({module.wide('ptr')} {pointers}, i32 {size}, {bits} splat (i1 true), {kind} poison)"
        )

    def _scratch_pointer(self, buffer, offset, stride=0, number=None):
        """Return the address of the vector of scalar offset + stride·number of a buffer in scratch memory."""
        pointer, base, start = self.module.pointer, self._scratch_base(), self.plan.scratch[buffer]
        wide = 8 * self.module.lanes
        here = self.let(f"getelementptr i8, {pointer} {base}, i64 {start + offset * wide}")
        if number is None:
            return here
        moved = self.let(f"mul i64 {number}, {stride * wide}")
        return self.let(f"getelementptr i8, {pointer} {here}, i64 {moved}")
