// Which cases run on a group of `size` ranks: pure functions, the same list on every rank.
#pragma once

#include <vector>

#include "comm/testing/suite_case.h"
#include "comm/testing/suite_rank.h"

namespace tessera::testing {

// 0, 1 and 7 elements, in place and not: every op with every algorithm at every root, and with
// every reduction of every type; what is left open by seed.
std::vector<SuiteCase> tiny_cases(const SuiteTraits& traits, int size);

// 4 KiB less one element, 4 KiB, and one more: a sample in which every value of every parameter
// meets every value of every other one.
std::vector<SuiteCase> middle_cases(const SuiteTraits& traits, int size);
// The same for 1 MiB and three elements: of the longer buffer, so that all_to_all and the like stay
// affordable with many ranks.
std::vector<SuiteCase> large_cases(const SuiteTraits& traits, int size);

// Every reduction of NaN, infinities, zeros and overflows, with algorithms that sum in order.
std::vector<SuiteCase> special_cases(const SuiteTraits& traits, int size);

// `num_cases` of any kind and up to `most` elements, by seed.
std::vector<SuiteCase> random_cases(const SuiteTraits& traits, int size, int num_cases,
                                    int64_t most, uint32_t seed);

}  // namespace tessera::testing
