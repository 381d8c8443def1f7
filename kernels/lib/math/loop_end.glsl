// LOOP_END(n, count): n, as the bound of a loop that radeonsi's LLVM must not unroll.
//
// LLVM unrolls loops with a known number of rounds, then starts the loads of all rounds together.
// With LLVM 15, seven steps along K of a tile of 4 x 4 results spilled 548 registers (navi21). A
// loop with an unknown bound does not spill. Other compilers get the constant. `n` is a uint.
// `count` is a uint of a uniform block that is always below 2^31, such as `rows` or `pass_rows`.
//
// Only radeonsi with LLVM has such subgroups and so few registers (gl_registers_guess()):
//! LET ROLLED = SUBGROUP_SIZE == 64 && REGISTERS <= 93 // fixed: see above

#if ROLLED
#define LOOP_END(n, count) ((n) + ((count) >> 31))
#else
#define LOOP_END(n, count) (n)
#endif
