#include "data/set/set_description.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "base/text/json.h"
#include "data/set/block_sums.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "tessera-tokens";
constexpr int64_t kVersion = 1;
constexpr int64_t kMostSetTokens = int64_t{1} << 56;  // their bytes can be counted
constexpr const char* kPrepareAgain =
    "copy the set again from where it is whole, or run 'tessera data prepare' again";

std::string hex8(uint32_t sum) { return fmt::format("{:08x}", sum); }

uint32_t sum_of_text(const Json& json) {
  const std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace);
  return crc32_of(std::as_bytes(std::span(text)));
}

Json hex_list(const std::vector<uint32_t>& sums) {
  Json list = Json::array();
  for (const uint32_t sum : sums) list.push_back(hex8(sum));
  return list;
}

// The fields of the file, each with a message for what it is not.
class SetFields {
 public:
  SetFields(const Json& json, const std::string& name) : json_(json), name_(name) {}

  [[nodiscard]] int64_t whole(const char* key, int64_t least, int64_t most) const {
    const Json& value = at(key);
    const bool fits =
        value.is_number_integer() &&
        !(value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) &&
        value.get<int64_t>() >= least && value.get<int64_t>() <= most;
    require_config(fits, "{}: \"{}\" is {}, not a number from {} to {}: {}", name_, key,
                   shown(value), least, most, kPrepareAgain);
    return value.get<int64_t>();
  }
  [[nodiscard]] std::string text(const char* key) const {
    const Json& value = at(key);
    require_config(value.is_string(), "{}: \"{}\" is {}, not a text: {}", name_, key, shown(value),
                   kPrepareAgain);
    return value.get<std::string>();
  }
  [[nodiscard]] std::vector<uint32_t> sums(const char* key, int64_t bytes) const {
    const Json& list = at(key);
    const int64_t blocks = (bytes + kSumBlockBytes - 1) / kSumBlockBytes;
    require_config(list.is_array() && std::ssize(list) == blocks,
                   "{}: \"{}\" is not a list of {} checksums, one for each block: {}", name_, key,
                   blocks, kPrepareAgain);
    std::vector<uint32_t> sums;
    for (const Json& one : list) sums.push_back(sum(one, key));
    return sums;
  }
  [[nodiscard]] uint32_t sum(const Json& value, const char* key) const {
    uint32_t sum = 0;
    const std::string digits = value.is_string() ? value.get<std::string>() : "";
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), sum, 16);
    require_config(
        digits.size() == 8 && read.ec == std::errc() && read.ptr == digits.data() + digits.size(),
        "{}: {} in \"{}\" is no checksum of 8 hexadecimal digits: {}", name_, shown(value), key,
        kPrepareAgain);
    return sum;
  }
  [[nodiscard]] const Json& at(const char* key) const {
    const auto found = json_.find(key);
    require_config(found != json_.end(), "{}: \"{}\" is missing: {}", name_, key, kPrepareAgain);
    return *found;
  }

 private:
  static std::string shown(const Json& value) {
    return value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60);
  }

  const Json& json_;
  const std::string& name_;
};

}  // namespace

std::string to_text(const SetDescription& set) {
  Json json = {{"format", kFormat},
               {"version", kVersion},
               {"dtype", name_of(set.type)},
               {"tokens", set.tokens},
               {"documents", set.documents},
               {"vocab_size", set.vocab_size},
               {"largest_id", set.largest_id},
               {"end_token", set.end_token},
               {"tokenizer", set.tokenizer},
               {"block_bytes", kSumBlockBytes},
               {"tokens_crc32", hex_list(set.token_sums)},
               {"documents_crc32", hex_list(set.document_sums)}};
  json["crc32"] = hex8(sum_of_text(json));
  return json.dump(1) + "\n";
}

SetDescription parse_set_description(std::string_view text, const std::string& name) {
  Json json = parse_ordered_json(text, name);
  require_config(json.is_object(), "{}: is no JSON object: {}", name, kPrepareAgain);
  const SetFields fields(json, name);
  require_config(fields.text("format") == kFormat, "{}: \"format\" is not \"{}\": is this a set?",
                 name, kFormat);
  const int64_t version = fields.whole("version", 0, INT64_MAX);
  require_config(version == kVersion,
                 "{}: is of version {}, this program reads version {}: use a newer Tessera, or run "
                 "'tessera data prepare' again",
                 name, version, kVersion);
  const uint32_t sum = fields.sum(fields.at("crc32"), "crc32");
  Json without_sum = json;
  without_sum.erase("crc32");
  require_config(sum == sum_of_text(without_sum),
                 "{}: was changed or damaged since it was written (its checksum differs): {}", name,
                 kPrepareAgain);
  SetDescription set;
  const std::string type = fields.text("dtype");
  require_config(type == "u16" || type == "u32", "{}: \"dtype\" is '{}', not u16 or u32: {}", name,
                 type, kPrepareAgain);
  set.type = *token_type_named(type);
  set.tokens = fields.whole("tokens", 0, kMostSetTokens);
  set.documents = fields.whole("documents", 0, set.tokens);
  set.vocab_size = fields.whole("vocab_size", 1, int64_t{1} << 31);
  set.largest_id = fields.whole("largest_id", 0, set.vocab_size - 1);
  set.end_token = fields.whole("end_token", -1, set.vocab_size - 1);
  set.tokenizer = fields.text("tokenizer");
  (void)fields.whole("block_bytes", kSumBlockBytes, kSumBlockBytes);
  set.token_sums = fields.sums("tokens_crc32", set.tokens * bytes_of(set.type));
  set.document_sums =
      fields.sums("documents_crc32", set.documents * static_cast<int64_t>(sizeof(uint64_t)));
  return set;
}

}  // namespace tessera
