// Text into sets of tokens: `tessera data prepare` (docs/data.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/prepare/work_unit.h"
#include "data/set/set_writer.h"

namespace tessera {

struct PrepareProgress {
  int64_t input_bytes = 0, total_input_bytes = 0;  // as the files lie on the disk
  int64_t text_bytes = 0;                          // unpacked, since this start
  int64_t tokens = 0, documents = 0;
  double seconds = 0;  // since this start
};

struct PrepareOptions {
  std::vector<std::string> inputs;  // files, and folders of files
  std::string tokenizer;            // a folder with a tokenizer.json, or the file
  std::string out;                  // a folder
  SetFormat format = SetFormat::kTessera;
  std::string key = "text";  // of JSON lines
  std::string separator;     // between the documents of a text file; empty: a file is one
  std::string end_token;     // after each document; empty: the tokenizer's end of text
  bool add_special = true;   // with what the tokenizer puts around a text
  double valid = 0;          // share of the documents that go to a set of their own
  int64_t seed = 1;          // which documents those are
  int64_t skip_bad = 0;      // lines that may be unreadable
  int64_t threads = 0;       // 0: one for each core
  bool overwrite = false;    // what is in `out`
  UnitLimits limits = {};    // decide about cuts, so about what is written
  size_t extra_bytes = size_t{64} << 20;  // OrderLimits
  std::function<void(const PrepareProgress&)> on_progress = nullptr;
  std::function<void(const std::string&)> on_note = nullptr;
  std::function<bool()> should_stop = nullptr;
};

struct PreparedSet {
  std::string name;  // "train", "valid"
  std::string path;  // for [data] train
  int64_t tokens = 0, documents = 0, bytes = 0;
};

struct PrepareResult {
  bool stopped = false;  // should_stop() said so; the same call goes on
  bool resumed = false;
  std::vector<PreparedSet> sets;
  int64_t vocab_size = 0, end_token = 0;
  std::string dtype;
  std::string tokenizer;               // its fingerprint
  int64_t num_empty = 0, num_bad = 0;  // documents and lines that were left out
  int64_t num_inputs = 0, input_bytes = 0;
  PrepareProgress progress;
};

// Without `valid` the set is `out` itself (Megatron: out/train.bin, .idx); with it there are
// out/train and out/valid. What is written depends on inputs and options alone, not on threads or
// interruptions: a call that was stopped or killed is continued by the same call. Memory stays
// below 512 MiB. Throws ConfigError for what the user can mend (an input that changed, a set that
// is there, an unreadable line with its place), Error for what cannot be read or written.
PrepareResult prepare(const PrepareOptions& options);

}  // namespace tessera
