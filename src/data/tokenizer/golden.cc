#include "data/tokenizer/golden.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/json.h"
#include "data/tokenizer/common/json_reader.h"
#include "data/tokenizer/encoder.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostBytes = size_t{256} << 20;
constexpr size_t kMostShown = 10;

std::vector<int32_t> read_ids(const JsonPlace& place) {
  std::vector<int32_t> ids;
  for (const JsonPlace& id : place.items()) ids.push_back(static_cast<int32_t>(id.whole()));
  return ids;
}

Json offsets_json(const Encoding& encoding) {
  Json list = Json::array();
  for (const ByteRange& range : encoding.offsets) list.push_back({range.begin, range.end});
  return list;
}

class Comparison {
 public:
  Comparison(const Tokenizer& tokenizer, GoldenReport& report)
      : tokenizer_(tokenizer), encoder_(tokenizer), report_(report) {}

  void compare(const JsonPlace& entry) {
    const std::string text = entry.at("text").text();
    const size_t before = report_.num_values;
    std::vector<int32_t> plain;
    encoder_.encode(text, false, plain);
    if (entry.has("ids")) {
      std::vector<int32_t> ids;
      encoder_.encode(text, true, ids);
      check(text, "ids", read_ids(entry.at("ids")), ids);
    }
    if (entry.has("ids_no_special")) {
      check(text, "ids_no_special", read_ids(entry.at("ids_no_special")), plain);
    }
    if (entry.has("decoded")) {
      // What was recorded, where it was: a wrong id is one difference, not two.
      const std::vector<int32_t> ids =
          entry.has("ids_no_special") ? read_ids(entry.at("ids_no_special")) : plain;
      check(text, "decoded", entry.at("decoded").text(), tokenizer_.decode(ids, true));
    }
    if (entry.has("offsets")) {
      check(text, "offsets", entry.at("offsets").value(),
            offsets_json(encoder_.encode_with_offsets(text, true)));
    }
    if (report_.num_values == before) {
      entry.fail("expected ids, ids_no_special, decoded or offsets beside the text");
    }
    ++report_.num_texts;
  }

 private:
  void check(const std::string& text, const std::string& field, const Json& expected,
             const Json& got) {
    ++report_.num_values;
    if (expected == got) return;
    ++report_.num_different;
    if (report_.differences.size() < kMostShown) {
      report_.differences.push_back({report_.num_texts, field, text, expected.dump(), got.dump()});
    }
  }

  const Tokenizer& tokenizer_;
  TokenEncoder encoder_;
  GoldenReport& report_;
};

}  // namespace

GoldenReport compare_golden(const Tokenizer& tokenizer, std::string_view json,
                            const std::string& name) {
  const Json document = parse_json(json, name, kMostBytes);
  GoldenReport report;
  Comparison comparison(tokenizer, report);
  for (const JsonPlace& entry : JsonPlace(document, name).items()) comparison.compare(entry);
  require_config(report.num_texts > 0, "{}: no texts to compare", name);
  return report;
}

}  // namespace tessera
