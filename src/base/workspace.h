// Scratch bytes that a kernel needs, shared by the compiler (which plans them) and the kernels
// (which check them). Pure formulas. `threads` is the size of the rank's team.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace tessera::workspace {

// Block sizes that the formulas and the kernels share.
// Products of bf16 and f16 are widened block by block: rows x depth, cols x depth, and the rows x
// cols result.
inline constexpr int64_t kLinearRows = 256;
inline constexpr int64_t kLinearCols = 512;
inline constexpr int64_t kLinearDepth = 512;
inline constexpr int64_t kQueryRows = 64;     // rows (queries x heads) of one attention block
inline constexpr int64_t kSumChunks = 256;    // partial sums, whatever the number of threads
inline constexpr int64_t kTableColumns = 16;  // of a table of narrow gradients, summed at a time
inline constexpr int64_t kAlignBytes = 64;    // every buffer inside a workspace starts on this

int64_t linear(DType type, int64_t tokens, int64_t out, int64_t in, int threads);
int64_t rms_norm_dw(DType type, int64_t tokens, int64_t width, int threads);
// keys: that a sequence has on this rank.
int64_t attention(DType type, int64_t keys, int64_t head_dim, int threads);
int64_t attention_grad(DType type, int64_t keys, int64_t head_dim, int threads);
// embedding_dw, positions_dw: only tables of narrow gradients are summed elsewhere.
int64_t table_grad(DType gradients, int64_t rows, int threads);
int64_t sum_squares(int threads);
int64_t cross_entropy_loss(int threads);

int64_t dispatch_rows(int64_t experts);

// Products of 8 bits: the numbers of both matrices, and what their product needs.
int64_t amax(int threads);
int64_t fp8_numbers(DType type, int64_t elements);
int64_t fp8_linear(DType type, int64_t tokens, int64_t out, int64_t in, int threads);
int64_t fp8_linear_dx(DType type, int64_t tokens, int64_t out, int64_t in, int threads);
int64_t fp8_linear_dw(DType type, int64_t tokens, int64_t out, int64_t in, int threads);

// Serving. Inputs are packed. Few tokens read each weight as it is stored; of more, rows of weights
// are widened by panels.
inline constexpr int64_t kServeFewTokens = 8;
inline constexpr int64_t kServePanelRows = 48;
inline constexpr int64_t kServeTileTokens = 8;  // at most
inline constexpr int64_t kServeStep = 32;       // inputs are packed by so many elements
inline constexpr int64_t kPageTile = 64;        // keys, by absolute position
int64_t serve_linear(DType type, int64_t tokens, int64_t in, int64_t chunks, int threads);
int64_t paged_attention(DType type, int64_t head_dim, int threads);

}  // namespace tessera::workspace
