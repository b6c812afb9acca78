#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "api/schema.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "data/data_sets.h"
#include "data/set/check_set.h"

namespace tessera {
namespace {

std::string known_count(int64_t count, int64_t unknown) {
  return count == unknown ? "not known" : with_thousands(count);
}

std::string checked_text(const TokenSet& set, const SetCheck& check) {
  TextTable table({{set.name()}, {""}});
  table.add_row({"format", set.is_megatron() ? "Megatron" : "Tessera"});
  table.add_row({"documents", fmt::format("{} of {} to {} tokens", with_thousands(set.documents()),
                                          with_thousands(check.shortest_document),
                                          with_thousands(check.longest_document))});
  table.add_row(
      {"tokens", fmt::format("{} as {}", with_thousands(set.size()), name_of(set.type()))});
  table.add_row({"vocabulary", known_count(set.vocab_size(), 0)});
  table.add_row({"largest id", known_count(check.largest_id, -1)});
  table.add_row({"end of a document", known_count(set.end_token(), -1)});
  table.add_row({"tokenizer", set.tokenizer().empty() ? "not known" : set.tokenizer()});
  return table.str() + fmt::format("whole: every token{} was looked at\n",
                                   set.is_megatron() ? " and document" : ", document and checksum");
}

nlohmann::ordered_json checked_json(const TokenSet& set, const SetCheck& check) {
  const auto known = [](int64_t count, int64_t unknown) {
    return count == unknown ? nlohmann::ordered_json() : nlohmann::ordered_json(count);
  };
  return {{"schema_version", kSchemaVersion},
          {"kind", "set"},
          {"path", set.name()},
          {"format", set.is_megatron() ? "megatron" : "tessera"},
          {"documents", set.documents()},
          {"shortest_document", check.shortest_document},
          {"longest_document", check.longest_document},
          {"tokens", set.size()},
          {"dtype", name_of(set.type())},
          {"vocab_size", known(set.vocab_size(), 0)},
          {"largest_id", known(check.largest_id, -1)},
          {"end_token", known(set.end_token(), -1)},
          {"tokenizer", set.tokenizer().empty() ? nlohmann::ordered_json()
                                                : nlohmann::ordered_json(set.tokenizer())}};
}

}  // namespace

Command add_data_check(CLI::App& data) {
  CLI::App* app = add_command(data, "check",
                              {"Look at every byte of a set of tokens: is it whole?",
                               "tessera data check set", "tessera data prepare --help"});
  auto options = std::make_shared<DataCheckOptions>();
  must_be_given(
      add_text(*app, "set", options->set, "SET",
               "the folder of 'data prepare', or the prefix of Megatron's .bin and .idx"));
  add_whole(*app, "--vocab", options->vocab, 1,
            "ids must be below this (default: the set's own vocabulary)");
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options](Console& console) { return run_data_check(*options, console); }};
}

int run_data_check(const DataCheckOptions& options, Console& console) {
  const TokenSet set = TokenSet::open(options.set);
  const SetCheck check = check_set(set, options.vocab);
  if (options.json) {
    console.out << checked_json(set, check).dump(2) << '\n';
  } else {
    console.out << fitted(console, checked_text(set, check));
  }
  return 0;
}

}  // namespace tessera
