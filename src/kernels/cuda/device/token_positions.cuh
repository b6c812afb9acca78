// base/sequence_rows.h without divisions: which sequence and position the rows of a tensor have.
#pragma once

#include "base/sequence_rows.h"
#include "kernels/cuda/device/packs.cuh"

namespace tessera::kernels::cuda {

class TokenPositions {
 public:
  TokenPositions(const SequenceRows& rows, int64_t first_token)
      : length_(rows.length()),
        chunk_(rows.chunk_len()),
        first_token_(first_token),
        first_(rows.first_position(0)),
        step_(rows.num_chunks() > 1 ? rows.first_position(1) - rows.first_position(0) : 0) {}

  // Where row t is: the sequence counted from the first of the micro-batch (its row), and the place
  // among the tokens held of it (its column).
  __device__ Place place(int64_t t) const { return place_of(first_token_ + t, length_); }
  // Position of the i-th token held of a sequence. First positions of chunks are evenly spaced.
  __device__ int64_t position(int64_t i) const {
    const Place in_chunk = place_of(i, chunk_);
    return first_ + in_chunk.row * step_ + in_chunk.column;
  }

 private:
  Divider length_, chunk_;
  int64_t first_token_, first_, step_;
};

}  // namespace tessera::kernels::cuda
