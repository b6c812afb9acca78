// `tessera bench predict --serve`: times of an engine as predicted, and as measured.
#pragma once

#include "bench/bench_predict.h"
#include "cli/command.h"

namespace tessera {

// `options` with a list of models to serve, and the cluster file of this machine.
int run_bench_predict_serve(const BenchPredictOptions& options, Console& console);

}  // namespace tessera
