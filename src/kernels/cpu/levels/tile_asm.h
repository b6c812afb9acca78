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

#define TILE_PREFETCH(row, element, first, second) \
  "prefetcht0 (%[at])\n prefetcht0 " TILE_VECTOR "(%[at])\n add %[ld],%[at]\n"

// A function `name` that computes a tile of `count` rows (TILE_ROWS_count) of elements of `type`.
// What c was is fetched shortly before it is needed: the panels would drive it out of the cache.
#define TILE_FUNCTION(name, type, count)                                                             \
  void name(const TileTask<type>& task) {                                                            \
    constexpr int64_t kLast = 8;                                                                     \
    const type* a = task.a;                                                                          \
    const type* b = task.b;                                                                          \
    type* c = task.c;                                                                                \
    type* at = c;                                                                                    \
    int64_t ones = task.depth % 4;                                                                   \
    int64_t last = task.depth / 4 < kLast ? task.depth / 4 : kLast;                                  \
    int64_t fours = task.depth / 4 - last;                                                           \
    asm volatile(TILE_ROWS_##count(TILE_CLEAR)                                                     \
        "test %[fours],%[fours]\n"                                                                 \
        "je 2f\n"                                                                                  \
        ".p2align 5\n"                                                                             \
        "1:\n"                                                                                     \
        TILE_LOAD_B("0") TILE_ROWS_##count(TILE_MULTIPLY_0)                                        \
        TILE_LOAD_B("1") TILE_ROWS_##count(TILE_MULTIPLY_1)                                        \
        TILE_LOAD_B("2") TILE_ROWS_##count(TILE_MULTIPLY_2)                                        \
        TILE_LOAD_B("3") TILE_ROWS_##count(TILE_MULTIPLY_3)                                        \
        "add $4*" TILE_A_STEP ",%[a]\n"                                                            \
        "add $4*" TILE_B_STEP ",%[b]\n"                                                            \
        "dec %[fours]\n"                                                                           \
        "jne 1b\n"                                                                                 \
        "2:\n"                                                                                     \
        "mov %[last],%[fours]\n"                                                                   \
        "xor %k[last],%k[last]\n"                                                                  \
        "test %[fours],%[fours]\n"                                                                 \
        "je 3f\n"                                                                                  \
        TILE_ROWS_##count(TILE_PREFETCH)                                                           \
        "jmp 1b\n"                                                                                 \
        "3:\n"                                                                                     \
        "test %[ones],%[ones]\n"                                                                   \
        "je 5f\n"                                                                                  \
        "4:\n"                                                                                     \
        TILE_LOAD_B("0") TILE_ROWS_##count(TILE_MULTIPLY_0)                                        \
        "add $" TILE_A_STEP ",%[a]\n"                                                              \
        "add $" TILE_B_STEP ",%[b]\n"                                                              \
        "dec %[ones]\n"                                                                            \
        "jne 4b\n"                                                                                 \
        "5:\n"                                                                                     \
        TILE_BROAD " (%[alpha])," TILE_V "0\n"                                                     \
        "test %[add],%[add]\n"                                                                     \
        "jne 6f\n"                                                                                 \
        TILE_ROWS_##count(TILE_STORE)                                                              \
        "jmp 7f\n"                                                                                 \
        "6:\n"                                                                                     \
        TILE_ROWS_##count(TILE_ADD)                                                                \
        "7:\n"                                                                                     \
        "vzeroupper\n"                                                                             \
        : [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [at] "+r"(at), [fours] "+r"(fours),               \
          [ones] "+r"(ones), [last] "+r"(last)                                                     \
        : [ld] "r"(task.row_bytes), [alpha] "r"(&task.alpha),                                      \
          [add] "r"(static_cast<int64_t>(task.accumulate))                                         \
        : "memory", "cc", TILE_CLOBBERS); \
  }
