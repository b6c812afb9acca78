#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/schema.h"
#include "base/error.h"
#include "base/text/printable.h"
#include "base/text/text.h"
#include "cli/read_text.h"
#include "data/tokenizer/encoder.h"
#include "data/tokenizer/golden.h"
#include "data/tokenizer/unicode/unicode.h"
#include "data/tokenizer_command.h"

namespace tessera {
namespace {

// The pieces beside their ids, as people read them.
std::string tokens_table(const Tokenizer& tokenizer, const Encoding& encoding) {
  TextTable table({{"id", Align::kRight}, {"piece"}, {"characters"}});
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    const ByteRange range = encoding.offsets[i];
    const std::string_view piece = tokenizer.token_of(encoding.ids[i]);
    const std::string shown = shortened(piece, 60);
    const bool of_text = range.end > range.begin;
    table.add_row({std::to_string(encoding.ids[i]), piece == shown ? shown : in_quotes(piece),
                   of_text ? fmt::format("{}-{}", range.begin, range.end) : ""});
  }
  return table.str();
}

nlohmann::ordered_json tokens_json(const Tokenizer& tokenizer, const std::string& text,
                                   const Encoding& encoding) {
  nlohmann::ordered_json json = {{"schema_version", kSchemaVersion},
                                 {"text", text},
                                 {"ids", encoding.ids},
                                 {"pieces", nlohmann::ordered_json::array()},
                                 {"offsets", nlohmann::ordered_json::array()},
                                 {"decoded", tokenizer.decode(encoding.ids, true)},
                                 {"vocab_size", tokenizer.vocab_size()}};
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    json["pieces"].push_back(tokenizer.token_of(encoding.ids[i]));
    json["offsets"].push_back({encoding.offsets[i].begin, encoding.offsets[i].end});
  }
  return json;
}

}  // namespace

int run_tokens(const TokensOptions& options, Console& console) {
  const Tokenizer tokenizer = Tokenizer::load(options.tokenizer);
  std::string text;
  append_lossy(options.text, text);
  TokenEncoder encoder(tokenizer);
  const Encoding encoding = encoder.encode_with_offsets(text, !options.no_special);
  if (options.json) {
    console.out << tokens_json(tokenizer, text, encoding).dump(2) << '\n';
    return 0;
  }
  const auto count = static_cast<int64_t>(encoding.ids.size());
  console.out << fitted(console, tokens_table(tokenizer, encoding));
  console.out << fmt::format("{} for {} of text; the vocabulary has {}\n", count_of(count, "token"),
                             count_of(static_cast<int64_t>(text.size()), "byte"),
                             with_thousands(tokenizer.vocab_size()));
  std::vector<int32_t> ids;
  encoder.encode(text, false, ids);
  const std::string decoded = tokenizer.decode(ids, false);
  if (decoded != text) {
    console.out << "decoded, it is another text: " << in_quotes(decoded, 200) << '\n';
  }
  return 0;
}

int run_verify_tokenizer(const std::string& tokenizer_path, const std::string& golden, bool json,
                         Console& console) {
  require_config(!golden.empty(),
                 "--tokenizer is compared with recorded ids: give --golden FILE as well");
  const Tokenizer tokenizer = Tokenizer::load(tokenizer_path);
  const GoldenReport report = compare_golden(tokenizer, read_text(golden), golden);
  const bool equal = report.num_different == 0;
  if (json) {
    nlohmann::ordered_json out = {
        {"schema_version", kSchemaVersion},  {"equal", equal},
        {"texts", report.num_texts},         {"compared", report.num_values},
        {"different", report.num_different}, {"differences", nlohmann::ordered_json::array()}};
    for (const GoldenDifference& one : report.differences) {
      out["differences"].push_back({{"entry", one.entry},
                                    {"field", one.field},
                                    {"text", one.text},
                                    {"expected", nlohmann::ordered_json::parse(one.expected)},
                                    {"got", nlohmann::ordered_json::parse(one.got)}});
    }
    console.out << out.dump(2) << '\n';
  } else {
    for (const GoldenDifference& one : report.differences) {
      console.out << fmt::format("entry {}, {} of {}:\n  expected {}\n  got      {}\n", one.entry,
                                 one.field, in_quotes(one.text), shortened(one.expected, 500),
                                 shortened(one.got, 500));
    }
    console.out << fmt::format("{}: {}, {} compared, {} different\n", equal ? "equal" : "DIFFERENT",
                               count_of(static_cast<int64_t>(report.num_texts), "text"),
                               count_of(static_cast<int64_t>(report.num_values), "value"),
                               report.num_different);
  }
  return static_cast<int>(equal ? ExitCode::kOk : ExitCode::kFailed);
}

}  // namespace tessera
