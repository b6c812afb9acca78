#include "train/samples/tokenizer_copy.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "train/samples/run_sets.h"

namespace tessera {

void copy_tokenizer(const RunSpec& spec, const RunDirectory& directory,
                    const std::function<void(const std::string&)>& note) {
  const DataSpec& data = spec.data;
  std::string folder = data.is_sets() ? tokenizer_folder_of(spec, training_sets(spec)) : "";
  if (!data.chats.empty()) folder = data.tokenizer.empty() ? spec.model.hf : data.tokenizer;
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
    const std::filesystem::path from = std::filesystem::path(folder) / name;
    std::error_code failure;
    std::filesystem::remove(directory.file(name), failure);
    if (folder.empty() || !std::filesystem::exists(from, failure)) continue;
    std::filesystem::copy_file(from, directory.file(name), failure);
    if (failure)
      note(fmt::format("cannot copy '{}' to the run: {}", from.string(), failure.message()));
  }
}

}  // namespace tessera
