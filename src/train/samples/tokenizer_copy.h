// The tokenizer of a run, beside its weights: whoever speaks with the model needs it.
#pragma once

#include <functional>
#include <string>

#include "spec/run_spec.h"
#include "train/directory/run_directory.h"

namespace tessera {

// Copies tokenizer.json and what belongs to it to the run. Files of those names that a run before
// has left are removed, whether or not this run has any. `note` is told what cannot be copied.
void copy_tokenizer(const RunSpec& spec, const RunDirectory& directory,
                    const std::function<void(const std::string&)>& note);

}  // namespace tessera
