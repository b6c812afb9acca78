#include <fstream>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "data/corpus.h"
#include "data/prepare/work_unit.h"
#include "data/tokenizer/tokenizer_file.h"
#include "data/tokenizer/train_bpe.h"
#include "data/tokenizer_command.h"

namespace tessera {
namespace {

constexpr size_t kBlockBytes = size_t{4} << 20;

KnownSplit split_called(const std::string& name) {
  if (name == "gpt2") return KnownSplit::kGpt2;
  return name == "qwen2" ? KnownSplit::kQwen2 : KnownSplit::kLlama3;
}

// In blocks that end where a line does, or at least a character, so that files may be larger than
// memory.
int64_t count_file(const std::string& path, PieceCounts& counts) {
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), "cannot open '{}': check its permissions", path);
  std::string block;
  int64_t bytes = 0;
  while (file) {
    const size_t before = block.size();
    block.resize(before + kBlockBytes);
    file.read(block.data() + before, static_cast<std::streamsize>(kBlockBytes));
    block.resize(before + static_cast<size_t>(file.gcount()));
    const size_t line_end = file ? block.rfind('\n') : block.npos;
    const size_t end = line_end != block.npos ? line_end + 1
                       : file                 ? cut_of_piece(block)
                                              : block.size();
    counts.add(std::string_view(block).substr(0, end));
    bytes += static_cast<int64_t>(end);
    block.erase(0, end);
  }
  require(file.eof(), "cannot read '{}' after {} bytes", path, bytes);
  return bytes;
}

Command add_tokens(CLI::App& data) {
  CLI::App* app = add_command(data, "tokens",
                              {"Show the tokens of a text: ids, pieces, and where they come from.",
                               "tessera data tokens \"Hello world\" --tokenizer tokenizer",
                               "tessera data tokenizer train --help"});
  auto options = std::make_shared<TokensOptions>();
  must_be_given(add_text(*app, "text", options->text, "TEXT", "the text"));
  must_be_given(add_text(*app, "--tokenizer", options->tokenizer, "DIR",
                         "a folder with a tokenizer.json, or the file"));
  add_switch(*app, "--no-special", options->no_special,
             "without the special tokens that the tokenizer puts around a text");
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options](Console& console) { return run_tokens(*options, console); }};
}

Command add_train(CLI::App& data) {
  CLI::App* tokenizer =
      add_command(data, "tokenizer",
                  {"Make tokenizers.", "tessera data tokenizer train stories.txt --out tokenizer",
                   "tessera data tokenizer train --help"});
  CLI::App* app = add_command(
      *tokenizer, "train",
      {"Train a byte-level BPE on text; its tokenizer.json loads in the Hugging Face library.",
       "tessera data tokenizer train stories.txt --vocab 8192 --out tokenizer",
       "tessera data tokens \"Hello world\" --tokenizer tokenizer"});
  auto options = std::make_shared<TokenizerTrainOptions>();
  must_be_given(add_list(*app, "text", options->texts, "TEXT", "files, or folders of files"));
  add_whole(*app, "--vocab", options->vocab, 1,
            "tokens, the 256 bytes and the special ones included (default 8192)");
  must_be_given(add_text(*app, "--out", options->out, "DIR",
                         "where to write tokenizer.json and tokenizer_config.json"));
  add_choice(*app, "--split", options->split, "gpt2|llama3|qwen2",
             "how text is cut before pairs are joined (default llama3)");
  add_list(*app, "--special", options->special, "TOKEN",
           "a special token; the first is the end of a text (default <|endoftext|>)");
  return {app, [options](Console& console) { return run_tokenizer_train(*options, console); }};
}

}  // namespace

std::vector<Command> add_tokenizer_commands(CLI::App& data) {
  return {add_tokens(data), add_train(data)};
}

int run_tokenizer_train(const TokenizerTrainOptions& options, Console& console) {
  TrainBpeOptions train;
  train.vocab_size = options.vocab;
  train.split = split_called(options.split);
  if (!options.special.empty()) train.special_tokens = options.special;
  train.validate();
  PieceCounts counts(train.split);
  int64_t bytes = 0;
  for (const std::string& text : options.texts) {
    for (const std::filesystem::path& file : text_files(text)) {
      bytes += count_file(file.string(), counts);
    }
  }
  require_config(bytes > 0, "there is no text to train on: the files are empty");
  const TrainedBpe trained = train_bpe(train, counts);
  write_tokenizer(options.out, trained, train.split);
  const auto size = static_cast<int64_t>(trained.tokens.size());
  if (!console.quiet) {
    console.err << fmt::format("wrote {}: {} from {} of text\n", options.out,
                               count_of(size, "token"), human_bytes(bytes));
  }
  if (size < options.vocab) {
    console.err << fmt::format("no pair occurs twice any more: {} tokens, not {}; use more text\n",
                               size, options.vocab);
  }
  return 0;
}

}  // namespace tessera
