// What ranks are made for, before anything of a model is known.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/dtype.h"

namespace tessera::serve {

struct ServeOptions {
  std::string model;           // a run directory, a checkpoint, or a folder of Hugging Face
  std::string random_model;    // else: to_json() of a run whose model gets weights nobody trained
  int64_t tp = 1;              // ranks that split matrices, heads and the cache's heads
  int64_t pp = 1;              // stages, each with the cache of its layers
  int64_t ep = 1;              // ranks, of tp's, that split the experts
  DType dtype = DType::kF32;   // of weights, activations and cache: f64, f32 or bf16
  int64_t threads = 0;         // of each rank; 0: cores / ranks
  int64_t max_context = 0;     // tokens of one sequence; 0: what the model was made for
  int64_t page_size = 16;      // tokens of one page of the cache
  int64_t num_pages = 0;       // of the cache; 0: as many as fit
  int64_t memory_bytes = 0;    // that all ranks of one host may take together; 0: what is free
  int64_t max_tokens = 2048;   // of one frame
  int64_t max_sequences = 64;  // of one frame
  int64_t max_rows = 64;       // of one frame, whose logits are wanted
  std::chrono::milliseconds timeout{60'000};  // longest wait for another rank
  int64_t rank_memory_bytes = 0;  // that each rank may take, as of its own device; 0: no bound
};

}  // namespace tessera::serve
