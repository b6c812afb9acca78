// The sets of tokens that a run reads, and the tokenizer that goes with them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/set_samples.h"
#include "spec/run_spec.h"

namespace tessera {

// Those of data.train or data.mix; empty: the run reads bytes of text. Headers and sizes are
// looked at, no token. Throws ConfigError for a set that is missing, damaged, without documents,
// too short for one sample, or of a vocabulary that is larger than the model's.
std::vector<WeightedSet> training_sets(const RunSpec& spec);
// One of data.valid, likewise.
std::shared_ptr<const TokenSet> validation_set(const RunSpec& spec, const std::string& path);

// The token that ends a document, where all sets say the same; else -1.
int64_t end_token_of(const std::vector<WeightedSet>& sets);
// With the end token of its sets, where it masks documents and names none; conversations have
// none. Throws ConfigError where they say none, or different ones.
RunSpec with_end_token(RunSpec spec);

// The folder whose tokenizer.json is the run's: that of data.tokenizer, of the model's folder, or
// of the first set that has one. Empty: none, or the run reads bytes.
std::string tokenizer_folder_of(const RunSpec& spec, const std::vector<WeightedSet>& sets);

// What is looked at once, before a run starts: that all sets were made with the run's tokenizer,
// and some of the ids of sets that do not say how large their vocabulary is. Throws ConfigError.
void check_sets(const RunSpec& spec);

}  // namespace tessera
