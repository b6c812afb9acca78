// The normalizer Precompiled: a compiled character map, applied cluster by cluster.
#pragma once

#include <memory>

#include "data/tokenizer/steps/normalizer.h"

namespace tessera {

// Throws ConfigError for a map that is damaged, with its place.
std::unique_ptr<const Normalizer> read_precompiled(const JsonPlace& place);

}  // namespace tessera
