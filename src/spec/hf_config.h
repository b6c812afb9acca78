// The model that a config.json of Hugging Face describes. Pure: text in, values out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "spec/run_spec.h"

namespace tessera {

// Fields of a config.json; refuses unknown model types and rope types.
ModelSpec model_from_hf_config(std::string_view json_text, const std::string& file_name);

// Tokens of a sequence that its model was made for; 0: it does not say.
int64_t positions_of_hf_config(std::string_view json_text, const std::string& file_name);

// Where the config.json lies of a folder, or of what names the file itself.
std::string hf_config_path(const std::string& folder_or_file);
// The folder of hf_config_path(); a file of another name than config.json stays as it is.
std::string hf_folder(const std::string& folder_or_file);

}  // namespace tessera
