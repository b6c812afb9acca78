#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "api/schema.h"
#include "base/error.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/output_flags.h"
#include "train/eval_command.h"
#include "train/verify/evaluate.h"
#include "train/verify/logits_file.h"

namespace tessera {
namespace {

double share(int64_t part, int64_t all) {
  return static_cast<double>(part) / static_cast<double>(all);
}

nlohmann::ordered_json as_json(const SetScore& score) {
  nlohmann::ordered_json json = {{"file", score.file}};
  if (score.choices) {
    const ChoiceScore& c = score.choice;
    json["questions"] = c.questions;
    json["accuracy"] = share(c.right, c.questions);
    json["accuracy_normalized"] = share(c.right_normalized, c.questions);
    return json;
  }
  json["tokens"] = score.text.tokens;
  json["loss"] = score.text.loss;
  json["perplexity"] = score.text.perplexity();
  if (score.text.bytes > 0) json["bits_per_byte"] = score.text.bits_per_byte();
  return json;
}

void print(const std::vector<SetScore>& scores, Console& console) {
  TextTable texts({{"text"},
                   {"tokens", Align::kRight},
                   {"loss", Align::kRight},
                   {"perplexity", Align::kRight},
                   {"bits/byte", Align::kRight}});
  TextTable questions({{"questions"},
                       {"number", Align::kRight},
                       {"accuracy", Align::kRight},
                       {"by length", Align::kRight}});
  bool any_text = false, any_questions = false;
  for (const SetScore& score : scores) {
    const ChoiceScore& c = score.choice;
    const TextScore& t = score.text;
    if (score.choices) {
      any_questions = true;
      questions.add_row({score.file, with_thousands(c.questions),
                         fmt::format("{:.4f}", share(c.right, c.questions)),
                         fmt::format("{:.4f}", share(c.right_normalized, c.questions))});
    } else {
      any_text = true;
      texts.add_row({score.file, with_thousands(t.tokens), fmt::format("{:.4f}", t.loss),
                     fmt::format("{:.2f}", t.perplexity()),
                     t.bytes > 0 ? fmt::format("{:.4f}", t.bits_per_byte()) : "-"});
    }
  }
  if (any_text) console.out << fitted(console, texts.str());
  if (any_text && any_questions) console.out << '\n';
  if (any_questions) console.out << fitted(console, questions.str());
}

}  // namespace

Command add_eval(CLI::App& root) {
  CLI::App* app = add_command(
      root, "eval",
      {"Measure a model: perplexity of texts, right answers to questions with given choices.",
       "tessera eval runs/demo --data stories.txt", "tessera eval DIR --data questions.jsonl"});
  auto options = std::make_shared<EvalCommandOptions>();
  must_be_given(add_text(*app, "model", options->model, "RUN|DIR",
                         "the directory of a run, a checkpoint, or a Hugging Face folder"));
  add_list(*app, "--data", options->data, "FILE",
           "a text, a set of tokens, or a .jsonl with a query, choices and the right one on every "
           "line; can be repeated");
  add_text(*app, "--tokenizer", options->tokenizer, "DIR",
           "a tokenizer.json or a folder with one (default: the model's, else bytes)");
  add_length(*app, "--seq-len", options->seq_len,
             "tokens that the model sees at most (default: as it was trained)");
  add_whole(*app, "--limit", options->limit, 0,
            "take so many windows of a text, or questions; 0 is all (default)");
  add_text(*app, "--ids", options->ids, "FILE.json",
           "lists of ids of one length, [[5, 1, 7], [2, 2, 9]], for --logits");
  add_output_file(*app, "--logits", options->logits, kSafetensorsOutput, "FILE",
                  "write the logits of --ids, for other programs to compare");
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options](Console& console) { return run_eval(*options, console); }};
}

int run_eval(const EvalCommandOptions& options, Console& console) {
  require_config(options.ids.empty() == options.logits.empty(),
                 "--ids and --logits belong together: ids to look at, and where to write");
  require_config(
      !options.data.empty() || !options.ids.empty(),
      "eval needs something to measure: a text, a set of tokens or questions as --data, or "
      "--ids with --logits");
  if (!options.ids.empty()) {
    write_logits(open_model_folder(options.model), read_ids(options.ids), options.logits);
    if (!console.quiet) console.err << "wrote " << options.logits << '\n';
    if (options.data.empty()) return 0;
  }
  const std::vector<SetScore> scores = evaluate({.model = options.model,
                                                 .data = options.data,
                                                 .tokenizer = options.tokenizer,
                                                 .seq_len = options.seq_len,
                                                 .limit = options.limit});
  if (!options.json) {
    print(scores, console);
    return 0;
  }
  nlohmann::ordered_json json = {{"schema_version", kSchemaVersion},
                                 {"kind", "evaluation"},
                                 {"model", options.model},
                                 {"sets", nlohmann::ordered_json::array()}};
  for (const SetScore& score : scores) json["sets"].push_back(as_json(score));
  console.out << json.dump(2) << '\n';
  return 0;
}

}  // namespace tessera
