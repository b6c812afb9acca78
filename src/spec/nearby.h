// The nearest valid choices that error messages offer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spec/run_spec.h"

namespace tessera {

// The divisors of `number` next below and next above `wanted`; both arguments are positive.
std::vector<int64_t> nearby_divisors(int64_t number, int64_t wanted);

// The positive multiples of `unit` next below and next above `wanted`.
std::vector<int64_t> nearby_multiples(int64_t wanted, int64_t unit);

std::string either(const std::vector<int64_t>& values);  // "2 or 4"

// "dp=2,tp=2" for separator ",": the axes that are not 1, or "dp=1" for one rank.
std::string mesh_text(const ParallelSpec& parallel, std::string_view separator);

// Up to three meshes of dp, fsdp and tp with exactly `ranks` ranks, as mesh strings, those closest
// to `parallel` first: "dp=3,tp=2; dp=2,tp=3; dp=6". Empty if there are none.
// tp divides `heads` unless that is 0.
std::string nearby_meshes(const ParallelSpec& parallel, int64_t ranks, int64_t heads = 0);

}  // namespace tessera
