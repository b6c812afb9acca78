// A trained tokenizer as the files of a Hugging Face folder.
#pragma once

#include <filesystem>
#include <string>

#include "data/tokenizer/train_bpe.h"

namespace tessera {

// The text of tokenizer.json.
std::string tokenizer_json(const TrainedBpe& trained, KnownSplit split);
// tokenizer.json and tokenizer_config.json in `folder`, which is made where it is missing. Throws
// ConfigError where there is a tokenizer.json already, Error where it cannot be written.
void write_tokenizer(const std::filesystem::path& folder, const TrainedBpe& trained,
                     KnownSplit split);

}  // namespace tessera
