#include "data/set/set_writer.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "data/set/mapped_file.h"
#include "data/set/megatron.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

fs::path with_ending(const fs::path& prefix, const char* ending) {
  return prefix.string() + ending;
}

// The folder that holds the files, made where it is missing.
SetPlace made(SetPlace place) {
  const fs::path folder = place.tokens().parent_path();
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  require_config(!error, "cannot make folder '{}': {}; choose another place", folder.string(),
                 error.message());
  return place;
}

int64_t number_at(const nlohmann::json& state, const char* key) {
  const auto found = state.find(key);
  const bool good = found != state.end() && found->is_number_integer() &&
                    found->get<int64_t>() >= 0 && found->get<int64_t>() < (int64_t{1} << 56);
  require_config(good,
                 "cannot go on: \"{}\" of the unfinished set is damaged; start over with "
                 "--overwrite",
                 key);
  return found->get<int64_t>();
}

BlockSums sums_at(const nlohmann::json& state, const char* key, int64_t bytes) {
  std::vector<uint32_t> sums;
  const auto found = state.find(key);
  const int64_t blocks = (bytes + kSumBlockBytes - 1) / kSumBlockBytes;
  bool good = found != state.end() && found->is_array() && std::ssize(*found) == blocks;
  for (size_t i = 0; good && i < found->size(); ++i) {
    good = (*found)[i].is_number_unsigned() && (*found)[i].get<uint64_t>() <= UINT32_MAX;
    if (good) sums.push_back((*found)[i].get<uint32_t>());
  }
  require_config(good,
                 "cannot go on: \"{}\" of the unfinished set is damaged; start over with "
                 "--overwrite",
                 key);
  return {bytes, std::move(sums)};
}

}  // namespace

fs::path SetPlace::tokens() const {
  return format == SetFormat::kTessera ? place / kTokensFile : with_ending(place, ".bin");
}
fs::path SetPlace::document_ends() const {
  return format == SetFormat::kTessera ? place / kDocumentsFile : with_ending(place, ".ends");
}
fs::path SetPlace::head() const {
  return format == SetFormat::kTessera ? place / kSetFile : with_ending(place, ".idx");
}

SetWriter::SetWriter(SetPlace place, SetDescription facts)
    : place_(made(std::move(place))),
      facts_(std::move(facts)),
      tokens_(OutputBytes::create(place_.tokens())),
      ends_(OutputBytes::create(place_.document_ends())) {}

SetWriter::SetWriter(SetPlace place, SetDescription facts, const nlohmann::json& state)
    : place_(std::move(place)),
      facts_(std::move(facts)),
      tokens_(OutputBytes::continue_after(place_.tokens(),
                                          number_at(state, "tokens") * bytes_of(facts_.type))),
      ends_(
          OutputBytes::continue_after(place_.document_ends(), number_at(state, "documents") * 8)) {
  facts_.tokens = number_at(state, "tokens");
  facts_.documents = number_at(state, "documents");
  facts_.largest_id = number_at(state, "largest_id");
  token_sums_ = sums_at(state, "token_sums", facts_.tokens * bytes_of(facts_.type));
  end_sums_ = sums_at(state, "end_sums", facts_.documents * 8);
}

template <typename T>
void SetWriter::append_as(std::span<const int32_t> ids) {
  narrow_.resize(ids.size() * sizeof(T));
  T* to = reinterpret_cast<T*>(narrow_.data());
  std::transform(ids.begin(), ids.end(), to, [](int32_t id) { return static_cast<T>(id); });
}

void SetWriter::append(std::span<const int32_t> ids) {
  if (ids.empty()) return;
  const auto [least, most] = std::minmax_element(ids.begin(), ids.end());
  TESSERA_CHECK(*least >= 0, "id {}", *least);
  bytes_of(facts_.type) == 2 ? append_as<uint16_t>(ids) : append_as<uint32_t>(ids);
  append({.tokens = narrow_, .ends = {}, .crc32 = crc32_of(narrow_), .largest_id = *most});
}

void SetWriter::end_document() {
  const uint64_t end = static_cast<uint64_t>(facts_.tokens);
  add_ends({&end, 1});
}

void SetWriter::append(const Written& written) {
  if (written.tokens.empty()) return;
  TESSERA_CHECK(written.largest_id < facts_.vocab_size, "id {} of {}", written.largest_id,
                facts_.vocab_size);
  facts_.largest_id = std::max(facts_.largest_id, written.largest_id);
  tokens_.append(written.tokens);
  token_sums_.add(written.tokens, written.crc32);
  const auto before = static_cast<uint64_t>(facts_.tokens);
  facts_.tokens += std::ssize(written.tokens) / bytes_of(facts_.type);
  wide_ends_.clear();
  for (const uint32_t end : written.ends) wide_ends_.push_back(before + end);
  add_ends(wide_ends_);
}

void SetWriter::add_ends(std::span<const uint64_t> ends) {
  const auto bytes = std::as_bytes(ends);
  ends_.append(bytes);
  end_sums_.add(bytes);
  facts_.documents += std::ssize(ends);
}

nlohmann::json SetWriter::save() {
  tokens_.flush();
  ends_.flush();
  return {{"tokens", facts_.tokens},
          {"documents", facts_.documents},
          {"largest_id", facts_.largest_id},
          {"token_sums", token_sums_.sums()},
          {"end_sums", end_sums_.sums()}};
}

void SetWriter::finish() {
  tokens_.finish();
  ends_.finish();
  if (place_.format == SetFormat::kTessera) {
    facts_.token_sums = token_sums_.sums();
    facts_.document_sums = end_sums_.sums();
    replace_file(place_.head(), to_text(facts_));
    return;
  }
  const MappedFile ends = MappedFile::open(place_.document_ends());
  write_megatron_index(place_.head(), facts_.type, facts_.documents, [&](int64_t i) {
    return static_cast<int64_t>(read_u64(ends.bytes().data() + i * 8));
  });
  std::error_code error;
  fs::remove(place_.document_ends(), error);  // one that is left does no harm
}

}  // namespace tessera
