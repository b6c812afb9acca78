#include <malloc.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "api/schema.h"
#include "base/error.h"
#include "base/text/printable.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/read_text.h"
#include "data/data_sets.h"

namespace tessera {
namespace {

// A line that is drawn again on a terminal, ten times a second at most; elsewhere a line every ten
// seconds.
class PrepareProgressLine {
 public:
  explicit PrepareProgressLine(Console& console) : console_(console) {}
  ~PrepareProgressLine() { finish(); }
  PrepareProgressLine(const PrepareProgressLine&) = delete;
  PrepareProgressLine& operator=(const PrepareProgressLine&) = delete;

  void show(const PrepareProgress& progress) {
    const auto now = std::chrono::steady_clock::now();
    const auto pause = console_.err_is_terminal ? std::chrono::milliseconds(100)
                                                : std::chrono::milliseconds(10'000);
    if (console_.quiet || now - shown_at_ < pause) return;
    shown_at_ = now;
    const std::string text = one_line(console_, progress_text_of(progress));
    if (console_.err_is_terminal) {
      console_.err << "\r" << text << "\033[K" << std::flush;
      is_open_ = true;
    } else {
      console_.err << text << std::endl;
    }
  }
  void finish() {
    if (is_open_) console_.err << "\r\033[K" << std::flush;
    is_open_ = false;
  }

 private:
  static std::string progress_text_of(const PrepareProgress& progress) {
    constexpr int64_t kWidth = 30;
    const int64_t total = std::max<int64_t>(1, progress.total_input_bytes);
    const int64_t filled = std::min(kWidth, progress.input_bytes * kWidth / total);
    const double rate = static_cast<double>(progress.text_bytes) / std::max(progress.seconds, 1e-9);
    const double left = static_cast<double>(total - progress.input_bytes) * progress.seconds /
                        static_cast<double>(std::max<int64_t>(1, progress.input_bytes));
    return fmt::format("[{:{}}] {}% | {} tokens | {}/s | ETA {}",
                       std::string(static_cast<size_t>(filled), '#'), kWidth,
                       progress.input_bytes * 100 / total,
                       short_count(static_cast<double>(progress.tokens)),
                       human_bytes(static_cast<int64_t>(rate)), short_duration(left));
  }

  Console& console_;
  std::chrono::steady_clock::time_point shown_at_ = std::chrono::steady_clock::now();
  bool is_open_ = false;
};

// What a thread needed for one huge line goes back at once, instead of staying with that thread:
// with sixteen of them this is the difference between 200 and 500 MiB. Small blocks stay.
void give_back_huge_blocks() {
  mallopt(M_MMAP_THRESHOLD, 8 << 20);
  mallopt(M_TRIM_THRESHOLD, 16 << 20);
}

// "\n" and "\t" as shells leave them.
std::string unescaped(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      plain += text[i];
      continue;
    }
    switch (const char next = text[++i]; next) {
      case 'n':
        plain += '\n';
        break;
      case 'r':
        plain += '\r';
        break;
      case 't':
        plain += '\t';
        break;
      case '\\':
        plain += '\\';
        break;
      default:
        throw ConfigError(
            fmt::format("--separator has '\\{}': known are \\n, \\r, \\t and \\\\", next));
    }
  }
  return plain;
}

nlohmann::ordered_json prepared_json(const PrepareResult& result) {
  nlohmann::ordered_json json = {{"schema_version", kSchemaVersion},
                                 {"kind", "prepared"},
                                 {"resumed", result.resumed},
                                 {"inputs", result.num_inputs},
                                 {"input_bytes", result.input_bytes},
                                 {"sets", nlohmann::ordered_json::array()},
                                 {"dtype", result.dtype},
                                 {"vocab_size", result.vocab_size},
                                 {"end_token", result.end_token},
                                 {"tokenizer", result.tokenizer},
                                 {"empty_documents", result.num_empty},
                                 {"bad_lines", result.num_bad},
                                 {"text_bytes", result.progress.text_bytes},
                                 {"seconds", result.progress.seconds}};
  for (const PreparedSet& set : result.sets) {
    json["sets"].push_back({{"name", set.name},
                            {"path", set.path},
                            {"documents", set.documents},
                            {"tokens", set.tokens},
                            {"bytes", set.bytes}});
  }
  return json;
}

std::string prepared_text(const PrepareResult& result) {
  TextTable table(
      {{"set"}, {"documents", Align::kRight}, {"tokens", Align::kRight}, {"bytes", Align::kRight}});
  for (const PreparedSet& set : result.sets) {
    table.add_row({set.path, with_thousands(set.documents), with_thousands(set.tokens),
                   with_thousands(set.bytes)});
  }
  std::string text = table.str();
  text += fmt::format("{} of {}, vocabulary {}; each document ends with token {}\n",
                      count_of(result.num_inputs, "file"), human_bytes(result.input_bytes),
                      with_thousands(result.vocab_size), result.end_token);
  if (result.num_empty > 0) {
    text += fmt::format("{} without text left out\n", count_of(result.num_empty, "document"));
  }
  if (result.num_bad > 0) {
    text += fmt::format("{} left out\n", count_of(result.num_bad, "unreadable line"));
  }
  return text;
}

Command add_prepare(CLI::App& data) {
  CLI::App* app =
      add_command(data, "prepare",
                  {"Turn text into a set of tokens to train on.",
                   "tessera data prepare texts/ --tokenizer tokenizer --out set --valid 0.01",
                   "tessera train run.toml --set data.train=set/train"});
  auto options = std::make_shared<DataPrepareOptions>();
  PrepareOptions& prepare = options->prepare;
  must_be_given(add_list(*app, "in", prepare.inputs, "IN",
                         "files and folders: text, JSON lines (.jsonl), each also .gz and .zst"));
  must_be_given(add_text(*app, "--tokenizer", prepare.tokenizer, "DIR",
                         "a folder with a tokenizer.json, or the file"));
  must_be_given(add_text(*app, "--out", prepare.out, "DIR", "the folder to write to"));
  add_text(*app, "--key", prepare.key, "NAME",
           "the key of a JSON line that holds its text (default text)");
  add_text(*app, "--separator", options->separator, "TEXT",
           "what stands between the documents of a text file, such as \\n\\n (default: a file is "
           "one document)");
  add_text(*app, "--end", prepare.end_token, "TOKEN",
           "the token after each document (default: the tokenizer's end of text)");
  add_switch(*app, "--no-special", options->no_special,
             "without the special tokens that the tokenizer puts around a text");
  add_real(*app, "--valid", prepare.valid, 0,
           "share of the documents for validation, 0.01 say: OUT/train and OUT/valid are written");
  add_whole(*app, "--seed", prepare.seed, 0, "which documents those are (default 1)");
  add_choice(*app, "--format", options->format, "tessera|megatron",
             "megatron: OUT/train.bin and OUT/train.idx (default tessera)");
  add_whole(*app, "--threads", prepare.threads, 1,
            "that encode, at most 32 of them (default: one for each core)");
  add_whole(*app, "--skip-bad", prepare.skip_bad, 0,
            "leave out so many unreadable lines (default 0: the first ends the work)");
  add_switch(*app, "--overwrite", prepare.overwrite, "replace the set that is in OUT");
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options](Console& console) { return run_data_prepare(*options, console); }};
}

}  // namespace

std::vector<Command> add_set_commands(CLI::App& data) {
  return {add_prepare(data), add_data_check(data)};
}

int run_data_prepare(const DataPrepareOptions& options, Console& console) {
  PrepareOptions prepare_options = options.prepare;
  prepare_options.format =
      options.format == "megatron" ? SetFormat::kMegatron : SetFormat::kTessera;
  prepare_options.separator = unescaped(options.separator);
  prepare_options.add_special = !options.no_special;
  require_config(prepare_options.valid < 1, "--valid is {}: expected a share below 1, such as 0.01",
                 prepare_options.valid);
  require_config(prepare_options.threads <= 1024, "--threads is {}: use 1 to 1024",
                 prepare_options.threads);
  give_back_huge_blocks();
  PrepareProgressLine line(console);
  const InterruptGuard interrupt;
  prepare_options.on_progress = [&](const PrepareProgress& progress) { line.show(progress); };
  prepare_options.on_note = [&](const std::string& text) {
    line.finish();
    console.err << fitted_err(console, "tessera: " + printable(text)) << std::endl;
  };
  prepare_options.should_stop = [&] { return interrupt.interrupted(); };
  const PrepareResult result = prepare(prepare_options);
  line.finish();
  if (result.stopped) {
    console.err << fmt::format(
        "tessera: stopped by {} after {} tokens: the same command goes on from there\n",
        describe_stop(interrupt.signal()), with_thousands(result.progress.tokens));
    return kSignalCode + interrupt.signal();
  }
  if (options.json) {
    console.out << prepared_json(result).dump(2) << '\n';
    return 0;
  }
  console.out << fitted(console, prepared_text(result));
  if (!console.quiet) {
    const double rate =
        static_cast<double>(result.progress.text_bytes) / std::max(result.progress.seconds, 1e-9);
    console.err << fmt::format("{} of text in {:.1f} s, {}/s\n",
                               human_bytes(result.progress.text_bytes), result.progress.seconds,
                               human_bytes(static_cast<int64_t>(rate)));
  }
  return 0;
}

}  // namespace tessera
