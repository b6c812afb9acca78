// Tiles of a product in assembly: compilers that we build with spill sums of such loops to the
// stack, at half of the speed. A source defines the words of its instruction set and element type,
// and then its tiles:
//
//   TILE_V       a register without its number: "%%ymm"
//   TILE_P       the end of instructions on vectors: "ps"
//   TILE_TIMES   the one that adds products to sums
//   TILE_BROAD   the instruction that fills a register with one element
//   TILE_ZERO    the one that makes a register zero from itself
//   TILE_ELEMENT, TILE_VECTOR    bytes of an element and of a register, as text
//   TILE_A_STEP, TILE_B_STEP     bytes of one step of the packed panels, as text
//   TILE_CLOBBERS                all registers
//   TILE_SECOND(x)               x where a row of the tile is two registers wide, nothing where it
//   is one
//
// Registers: 0 and 1 hold a row of b, 2 and 3 elements of a; sums lie from 4 on, two for a row.
#pragma once

// Rows of a tile: X(row, register of its element of a, registers of its sums).
#define TILE_ROWS_2(X) X("0", "2", "4", "5") X("1", "3", "6", "7")
#define TILE_ROWS_4(X) TILE_ROWS_2(X) X("2", "2", "8", "9") X("3", "3", "10", "11")
#define TILE_ROWS_6(X) TILE_ROWS_4(X) X("4", "2", "12", "13") X("5", "3", "14", "15")
#define TILE_ROWS_8(X) TILE_ROWS_6(X) X("6", "2", "16", "17") X("7", "3", "18", "19")
#define TILE_ROWS_10(X) TILE_ROWS_8(X) X("8", "2", "20", "21") X("9", "3", "22", "23")
#define TILE_ROWS_12(X) TILE_ROWS_10(X) X("10", "2", "24", "25") X("11", "3", "26", "27")

#define TILE_CLEAR(row, element, first, second)                \
  TILE_ZERO " " TILE_V first "," TILE_V first "," TILE_V first \
            "\n" TILE_SECOND(TILE_ZERO " " TILE_V second "," TILE_V second "," TILE_V second "\n")

// One element of a row times the row of b, `step` elements further along k.
#define TILE_MULTIPLY(step, row, element, first, second)                                     \
  TILE_BROAD                                                                                 \
  " " row "*" TILE_ELEMENT "+" step "*" TILE_A_STEP "(%[a])," TILE_V element "\n" TILE_TIMES \
  " " TILE_V "0," TILE_V element "," TILE_V first                                            \
  "\n" TILE_SECOND(TILE_TIMES " " TILE_V "1," TILE_V element "," TILE_V second "\n")
#define TILE_MULTIPLY_0(row, element, first, second) TILE_MULTIPLY("0", row, element, first, second)
#define TILE_MULTIPLY_1(row, element, first, second) TILE_MULTIPLY("1", row, element, first, second)
#define TILE_MULTIPLY_2(row, element, first, second) TILE_MULTIPLY("2", row, element, first, second)
#define TILE_MULTIPLY_3(row, element, first, second) TILE_MULTIPLY("3", row, element, first, second)

#define TILE_LOAD_B(step)                          \
  "vmovaps " step "*" TILE_B_STEP "(%[b])," TILE_V \
  "0\n" TILE_SECOND("vmovaps " TILE_VECTOR "+" step "*" TILE_B_STEP "(%[b])," TILE_V "1\n")

// c = alpha * sum, or c += alpha * sum, which is one rounding for both levels.
#define TILE_STORE(row, element, first, second)                     \
  "vmul" TILE_P " " TILE_V "0," TILE_V first "," TILE_V first       \
  "\n"                                                              \
  "vmovu" TILE_P " " TILE_V first ",(%[c])\n" TILE_SECOND(          \
      "vmul" TILE_P " " TILE_V "0," TILE_V second "," TILE_V second \
      "\n"                                                          \
      "vmovu" TILE_P " " TILE_V second "," TILE_VECTOR "(%[c])\n") "add %[ld],%[c]\n"
#define TILE_ADD(row, element, first, second)                     \
  "vmovu" TILE_P " (%[c])," TILE_V                                \
  "1\n"                                                           \
  "vfmadd231" TILE_P " " TILE_V "0," TILE_V first "," TILE_V      \
  "1\n"                                                           \
  "vmovu" TILE_P " " TILE_V "1,(%[c])\n" TILE_SECOND(             \
      "vmovu" TILE_P " " TILE_VECTOR "(%[c])," TILE_V             \
      "2\n"                                                       \
      "vfmadd231" TILE_P " " TILE_V "0," TILE_V second "," TILE_V \
      "2\n"                                                       \
      "vmovu" TILE_P " " TILE_V "2," TILE_VECTOR "(%[c])\n") "add %[ld],%[c]\n"

#define TILE_PREFETCH_C(row, element, first, second) \
  "prefetcht0 (%[c])\n prefetcht0 " TILE_VECTOR "(%[c])\n add %[ld],%[c]\n"
#define TILE_PREFETCH(row, element, first, second) \
  "prefetcht0 (%[at])\n prefetcht0 " TILE_VECTOR "(%[at])\n add %[ld],%[at]\n"

// What later tiles will read is fetched into the second cache meanwhile, a little with every step.
#define TILE_AHEAD "prefetcht1 (%[ahead])\n prefetcht1 (%[ahead],%[apart])\n add %[pace],%[ahead]\n"

// A function `name` that computes a tile of `count` rows (TILE_ROWS_count) of elements of `type`.
// What c was is fetched while the last panels are multiplied: memory takes a third of a tile's
// time, and earlier the panels would drive it out of the cache.
#define TILE_FUNCTION(name, type, count)                                                               \
  void name(const TileTask<type>& task) {                                                              \
    constexpr int64_t kLast = 32;                                                                      \
    const type* a = task.a;                                                                            \
    const type* b = task.b;                                                                            \
    type* c = task.c;                                                                                  \
    type* at = c;                                                                                      \
    const char* ahead = task.ahead.at;                                                                 \
    int64_t ones = task.depth % 4;                                                                     \
    int64_t last = task.depth / 4 < kLast ? task.depth / 4 : kLast;                                    \
    int64_t fours = task.depth / 4 - last;                                                             \
    asm volatile(TILE_ROWS_##count(TILE_CLEAR)                                                       \
        "test %[fours],%[fours]\n"                                                                   \
        "je 2f\n"                                                                                    \
        ".p2align 5\n"                                                                               \
        "1:\n"                                                                                       \
        TILE_LOAD_B("0") TILE_ROWS_##count(TILE_MULTIPLY_0)                                          \
        TILE_LOAD_B("1") TILE_ROWS_##count(TILE_MULTIPLY_1)                                          \
        TILE_AHEAD                                                                                   \
        TILE_LOAD_B("2") TILE_ROWS_##count(TILE_MULTIPLY_2)                                          \
        TILE_LOAD_B("3") TILE_ROWS_##count(TILE_MULTIPLY_3)                                          \
        TILE_AHEAD                                                                                   \
        "add $4*" TILE_A_STEP ",%[a]\n"                                                              \
        "add $4*" TILE_B_STEP ",%[b]\n"                                                              \
        "dec %[fours]\n"                                                                             \
        "jne 1b\n"                                                                                   \
        "2:\n"                                                                                       \
        "mov %[last],%[fours]\n"                                                                     \
        "xor %k[last],%k[last]\n"                                                                    \
        "test %[fours],%[fours]\n"                                                                   \
        "je 3f\n"                                                                                    \
        TILE_ROWS_##count(TILE_PREFETCH)                                                             \
        "jmp 1b\n"                                                                                   \
        "3:\n"                                                                                       \
        "test %[ones],%[ones]\n"                                                                     \
        "je 5f\n"                                                                                    \
        "4:\n"                                                                                       \
        TILE_LOAD_B("0") TILE_ROWS_##count(TILE_MULTIPLY_0)                                          \
        "add $" TILE_A_STEP ",%[a]\n"                                                                \
        "add $" TILE_B_STEP ",%[b]\n"                                                                \
        "dec %[ones]\n"                                                                              \
        "jne 4b\n"                                                                                   \
        "5:\n"                                                                                       \
        TILE_BROAD " (%[alpha])," TILE_V "0\n"                                                       \
        "test %[add],%[add]\n"                                                                       \
        "jne 6f\n"                                                                                   \
        TILE_ROWS_##count(TILE_STORE)                                                                \
        "jmp 7f\n"                                                                                   \
        "6:\n"                                                                                       \
        TILE_ROWS_##count(TILE_ADD)                                                                  \
        "7:\n"                                                                                       \
        "vzeroupper\n"                                                                               \
        : [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [at] "+r"(at), [fours] "+r"(fours),                 \
          [ones] "+r"(ones), [last] "+r"(last), [ahead] "+r"(ahead)                                  \
        : [ld] "r"(task.row_bytes), [alpha] "r"(&task.alpha), [apart] "r"(task.ahead.apart),         \
          [pace] "r"(2 * task.ahead.pace), [add] "r"(static_cast<int64_t>(task.accumulate))          \
        : "memory", "cc", TILE_CLOBBERS); \
  }

// The same with operands read where they lie: every third row of a has a pointer of its own. `ld`
// counts steps until the rows of c are walked.
// X(element of a, register of it, registers of the row's sums).
#define TILE_PLACES_2(X) X("(%[a0])", "2", "4", "5") X("(%[a0],%[row])", "3", "6", "7")
#define TILE_PLACES_4(X) \
  TILE_PLACES_2(X) X("(%[a0],%[row],2)", "2", "8", "9") X("(%[a3])", "3", "10", "11")
#define TILE_PLACES_6(X) \
  TILE_PLACES_4(X) X("(%[a3],%[row])", "2", "12", "13") X("(%[a3],%[row],2)", "3", "14", "15")
#define TILE_PLACES_8(X) \
  TILE_PLACES_6(X) X("(%[a6])", "2", "16", "17") X("(%[a6],%[row])", "3", "18", "19")
#define TILE_PLACES_10(X) \
  TILE_PLACES_8(X) X("(%[a6],%[row],2)", "2", "20", "21") X("(%[a9])", "3", "22", "23")
#define TILE_PLACES_12(X) \
  TILE_PLACES_10(X) X("(%[a9],%[row])", "2", "24", "25") X("(%[a9],%[row],2)", "3", "26", "27")
#define TILE_NEXT_2 "add %[step_a],%[a0]\n"
#define TILE_NEXT_4 TILE_NEXT_2 "add %[step_a],%[a3]\n"
#define TILE_NEXT_6 TILE_NEXT_4
#define TILE_NEXT_8 TILE_NEXT_6 "add %[step_a],%[a6]\n"
#define TILE_NEXT_12 TILE_NEXT_8 "add %[step_a],%[a9]\n"

#define TILE_MULTIPLY_AT(place, element, first, second)                                  \
  TILE_BROAD " " place "," TILE_V element "\n" TILE_TIMES " " TILE_V "0," TILE_V element \
             "," TILE_V first                                                            \
             "\n" TILE_SECOND(TILE_TIMES " " TILE_V "1," TILE_V element "," TILE_V second "\n")

#define TILE_IN_PLACE(name, type, count)                                                               \
  void name(const InPlaceTask<type>& task) {                                                           \
    constexpr int64_t kLast = 128;                                                                     \
    const char* a0 = task.a;                                                                           \
    const char* a3 = a0 + 3 * task.row_a;                                                              \
    const char* a6 = a3 + 3 * task.row_a;                                                              \
    const char* a9 = a6 + 3 * task.row_a;                                                              \
    const char* b = task.b;                                                                            \
    type* c = task.c;                                                                                  \
    const char* ahead = task.ahead.at;                                                                 \
    int64_t last = task.depth < kLast ? task.depth : kLast;                                            \
    int64_t ld = task.depth - last;                                                                    \
    asm volatile(TILE_ROWS_##count(TILE_CLEAR)                                                       \
        "test %[ld],%[ld]\n"                                                                         \
        "je 2f\n"                                                                                    \
        ".p2align 5\n"                                                                               \
        "1:\n"                                                                                       \
        "vmovu" TILE_P " (%[b])," TILE_V "0\n"                                                       \
        TILE_SECOND("vmovu" TILE_P " " TILE_VECTOR "(%[b])," TILE_V "1\n")                           \
        "add %[step_b],%[b]\n"                                                                       \
        TILE_PLACES_##count(TILE_MULTIPLY_AT)                                                        \
        TILE_NEXT_##count                                                                            \
        TILE_AHEAD                                                                                   \
        "dec %[ld]\n"                                                                                \
        "jne 1b\n"                                                                                   \
        "2:\n"                                                                                       \
        "mov %[row_c],%[ld]\n"                                                                       \
        "cmpq $0,%[last]\n"                                                                          \
        "je 3f\n"                                                                                    \
        TILE_ROWS_##count(TILE_PREFETCH_C)                                                           \
        "mov %[start],%[c]\n"                                                                        \
        "mov %[last],%[ld]\n"                                                                        \
        "movq $0,%[last]\n"                                                                          \
        "jmp 1b\n"                                                                                   \
        "3:\n"                                                                                       \
        TILE_BROAD " %[alpha]," TILE_V "0\n"                                                         \
        "cmpq $0,%[add]\n"                                                                           \
        "jne 6f\n"                                                                                   \
        TILE_ROWS_##count(TILE_STORE)                                                                \
        "jmp 7f\n"                                                                                   \
        "6:\n"                                                                                       \
        TILE_ROWS_##count(TILE_ADD)                                                                  \
        "7:\n"                                                                                       \
        "vzeroupper\n"                                                                               \
        : [a0] "+r"(a0), [a3] "+r"(a3), [a6] "+r"(a6), [a9] "+r"(a9), [b] "+r"(b), [c] "+r"(c),      \
          [ld] "+r"(ld), [ahead] "+r"(ahead), [last] "+m"(last)                                      \
        : [row] "r"(task.row_a), [step_a] "r"(task.step_a), [step_b] "r"(task.step_b),               \
          [apart] "r"(task.ahead.apart), [pace] "r"(task.ahead.pace), [row_c] "m"(task.row_c),       \
          [start] "m"(task.c), [alpha] "m"(task.alpha), [add] "m"(task.accumulate)                   \
        : "memory", "cc", TILE_CLOBBERS); \
  }
