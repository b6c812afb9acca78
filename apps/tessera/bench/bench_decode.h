// `tessera bench decode`.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"

namespace tessera {

struct BenchDecodeOptions {
  std::string model;   // a folder with weights; empty: random ones
  std::string random;  // the model that gets random weights, as model.preset names it
  std::string shape;   // "hidden=2048,layers=16": keys of [model], over those of `random`
  std::string batches = "1,8,16,64";
  int64_t context = 512;  // tokens that every sequence has, the newest included
  int64_t prompt = 512;   // tokens of the prompt that is measured; 0: none
  std::string dtype = "bf16";
  std::string mesh;        // "tp=2,pp=2"
  bool processes = false;  // ranks are processes, else threads
  std::string program;     // that ranks run; empty: this one
  int64_t threads = 0;     // of each rank; 0: cores / ranks
  int64_t rounds = 5;      // every figure is measured once in each
  double seconds = 0.5;    // of steps, for one figure in one round
  bool json = false;
};

Command add_bench_decode(CLI::App& bench);
int run_bench_decode(const BenchDecodeOptions& options, Console& console);

}  // namespace tessera
