#include "data/prepare/prepare.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "data/chat_folder.h"
#include "data/corpus.h"
#include "data/prepare/byte_source.h"
#include "data/prepare/encode_in_order.h"
#include "data/prepare/prepare_state.h"
#include "data/set/megatron.h"
#include "data/text_doubt.h"
#include "data/tokenizer/tokenizer.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kSaveEvery{10};
// More than one thread can read for. Each needs memory: so many stay below 512 MiB.
constexpr int64_t kMostEncoders = 32;

// One `data prepare` at a time in a folder.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    require(folder_ >= 0, "cannot open folder '{}'", folder.string());
    const bool mine = ::flock(folder_, LOCK_EX | LOCK_NB) == 0;
    if (!mine) ::close(folder_);
    require_config(mine, "another 'tessera data prepare' works in '{}'", folder.string());
  }
  ~FolderLock() { ::close(folder_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int folder_;
};

std::vector<PrepareInput> list_inputs(const PrepareOptions& options) {
  std::vector<PrepareInput> inputs;
  const fs::path out = fs::weakly_canonical(options.out);
  for (const std::string& given : options.inputs) {
    for (const fs::path& file : text_files(given)) {
      struct stat facts = {};
      require(::stat(file.c_str(), &facts) == 0, "cannot read '{}'", file.string());
      const fs::path inside = fs::weakly_canonical(file).lexically_relative(out);
      require_config(inside.empty() || *inside.begin() == "..",
                     "'{}' is an input and lies in --out '{}': name another folder", file.string(),
                     options.out);
      inputs.push_back({file.string(), facts.st_size,
                        int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec});
    }
  }
  return inputs;
}

// The token that ends a document: the one that was asked for, else the folder's end of text.
int32_t find_end_token(const PrepareOptions& options, const Tokenizer& tokenizer) {
  std::string token = options.end_token;
  if (token.empty()) {
    token = special_tokens_of(options.tokenizer).value("eos_token", "");
  }
  require_config(!token.empty(),
                 "tokenizer '{}' does not say which token ends a text (\"eos_token\" of "
                 "tokenizer_config.json): name one with --end",
                 options.tokenizer);
  const int32_t id = tokenizer.id_of(token);
  require_config(id >= 0,
                 "tokenizer '{}' has no token '{}' to end documents with: name another "
                 "with --end",
                 options.tokenizer, token);
  return id;
}

class PrepareJob {
 public:
  explicit PrepareJob(const PrepareOptions& options)
      : options_(options),
        tokenizer_(Tokenizer::load(options.tokenizer)),
        end_token_(find_end_token(options, tokenizer_)),
        inputs_(list_inputs(options)) {
    state_.job = {{"inputs", json_of(inputs_)},
                  {"tokenizer", tokenizer_.fingerprint()},
                  {"end token", end_token_},
                  {"format", options.format == SetFormat::kTessera ? "tessera" : "megatron"},
                  {"key", options.key},
                  {"separator", options.separator},
                  {"special tokens", options.add_special},
                  {"valid", options.valid},
                  {"seed", options.seed}};
    for (const PrepareInput& input : inputs_) total_bytes_ += input.bytes;
  }

  PrepareResult run() {
    std::error_code error;
    const bool made = fs::create_directories(options_.out, error);
    require_config(!error, "cannot make folder '{}': {}; choose another place for --out",
                   options_.out, error.message());
    const FolderLock lock(options_.out);
    start(made);
    note_doubtful();
    write_documents();
    if (!result_.stopped) finish();
    return describe();
  }

 private:
  void start(bool is_new) {
    std::optional<PrepareState> before;
    if (!is_new && !options_.overwrite) before = read_state(options_.out);
    if (before.has_value()) {
      const std::string difference = job_difference(before->job, state_.job);
      require_config(difference.empty(),
                     "'{}' holds another set that is not finished: {}; use --overwrite to drop it, "
                     "or another --out",
                     options_.out, difference);
      state_ = std::move(*before);
      result_.resumed = true;
    } else {
      clear_out();
    }
    const std::vector<SetPlace> places = set_places();
    require_config(!result_.resumed || state_.sets.size() == places.size(),
                   "'{}' is damaged: start over with --overwrite",
                   state_path(options_.out).string());
    for (size_t i = 0; i < places.size(); ++i) {
      result_.resumed ? writers_.emplace_back(places[i], set_facts(), state_.sets[i])
                      : writers_.emplace_back(places[i], set_facts());
    }
    save();
  }

  // Says of the first few files whose beginning is hardly text that they are taken for text.
  void note_doubtful() const {
    constexpr size_t kMostFiles = 100;
    if (!options_.on_note || result_.resumed) return;
    std::vector<char> beginning(size_t{64} << 10);
    for (size_t i = 0, notes = 0; i < std::min(inputs_.size(), kMostFiles) && notes < 3; ++i) {
      const std::string& path = inputs_[i].path;
      if (has_json_lines(path)) continue;
      const size_t size = open_bytes(path)->read(beginning);
      const std::string doubt = text_doubt({beginning.data(), size});
      if (doubt.empty()) continue;
      ++notes;
      options_.on_note(fmt::format(
          "'{}' {}: it is read as text in UTF-8 all the same; convert it, or leave it out", path,
          doubt));
    }
  }

  // Everything that this job or another of any kind would have written, and nothing else.
  void clear_out() const {
    const fs::path out = options_.out;
    std::vector<fs::path> files = {state_path(out)};
    for (const SetPlace& place :
         {SetPlace{SetFormat::kTessera, out}, SetPlace{SetFormat::kTessera, out / "train"},
          SetPlace{SetFormat::kTessera, out / "valid"},
          SetPlace{SetFormat::kMegatron, out / "train"},
          SetPlace{SetFormat::kMegatron, out / "valid"}}) {
      std::error_code error;
      require_config(options_.overwrite || !fs::exists(place.head(), error),
                     "'{}' holds a set already ('{}'): use --overwrite to replace it, or another "
                     "--out",
                     options_.out, place.head().string());
      for (const fs::path& file : {place.head(), place.tokens(), place.document_ends()}) {
        files.push_back(file);
      }
    }
    for (const fs::path& file : files) {
      std::error_code error;
      fs::remove(file, error);
      require(!error, "cannot remove '{}': {}", file.string(), error.message());
    }
  }

  [[nodiscard]] std::vector<SetPlace> set_places() const {
    const fs::path out = options_.out;
    const bool named = options_.valid > 0 || options_.format == SetFormat::kMegatron;
    std::vector<SetPlace> places = {{options_.format, named ? out / "train" : out}};
    if (options_.valid > 0) places.push_back({options_.format, out / "valid"});
    return places;
  }

  [[nodiscard]] SetDescription set_facts() const {
    const int64_t vocab = tokenizer_.vocab_size();
    SetDescription facts;
    facts.type = options_.format == SetFormat::kMegatron ? megatron_type(vocab)
                 : vocab <= 65536                        ? TokenType::kU16
                                                         : TokenType::kU32;
    facts.vocab_size = vocab;
    facts.end_token = end_token_;
    facts.tokenizer = tokenizer_.fingerprint();
    return facts;
  }

  void write_documents() {
    const EncodeOptions encode{.key = options_.key,
                               .separator = options_.separator,
                               .end_token = end_token_,
                               .add_special = options_.add_special,
                               .valid = options_.valid,
                               .seed = static_cast<uint64_t>(options_.seed),
                               .type = set_facts().type,
                               .limits = options_.limits};
    const int64_t cores = std::max(1U, std::thread::hardware_concurrency());
    const OrderLimits limits{
        .threads = std::min(options_.threads > 0 ? options_.threads : cores, kMostEncoders),
        .extra_bytes = options_.extra_bytes};
    started_ = Clock::now();
    saved_ = started_;
    UnitReader reader(inputs_, options_.separator, state_.place, options_.limits);
    encode_in_order(reader, tokenizer_, encode, limits, [&](const UnitUnderWay& unit) {
      write(unit);
      result_.stopped = options_.should_stop && options_.should_stop();
      if (result_.stopped || Clock::now() - saved_ > kSaveEvery) save();
      return !result_.stopped;
    });
  }

  void write(const UnitUnderWay& under_way) {
    const EncodedUnit& unit = under_way.encoded;
    const WorkUnit& work = under_way.work;
    if (unit.failure) std::rethrow_exception(unit.failure);
    for (const BadLine& bad : unit.bad) {
      const std::string& path = inputs_[static_cast<size_t>(work.from.file)].path;
      const std::string text =
          fmt::format("{}:{}: the line {}", path, state_.line + bad.line, bad.what);
      ++state_.num_bad;
      require_config(state_.num_bad <= options_.skip_bad,
                     "{}; --skip-bad N leaves out N such lines", text);
      if (options_.on_note) options_.on_note(text + "; it is left out");
    }
    for (size_t i = 0; i < unit.sets.size(); ++i) {
      const EncodedTokens& set = unit.sets[i];
      SetWriter& writer = i == 0 ? writers_.front() : writers_.back();
      writer.append({set.tokens.bytes(), set.ends, set.crc32, set.largest_id});
    }
    state_.num_empty += unit.num_empty;
    state_.place = work.to;
    state_.line = work.to.file == work.from.file ? state_.line + unit.num_lines : 1;
    result_.progress.input_bytes = work.packed_bytes;
    result_.progress.text_bytes += std::ssize(work.text.text());
    report();
  }

  void report() {
    PrepareProgress& progress = result_.progress;
    progress.total_input_bytes = total_bytes_;
    progress.seconds = std::chrono::duration<double>(Clock::now() - started_).count();
    progress.tokens = progress.documents = 0;
    for (const SetWriter& writer : writers_) {
      progress.tokens += writer.tokens();
      progress.documents += writer.documents();
    }
    if (options_.on_progress) options_.on_progress(progress);
  }

  void save() {
    state_.sets.clear();
    for (SetWriter& writer : writers_) state_.sets.push_back(writer.save());
    write_state(options_.out, state_);
    saved_ = Clock::now();
  }

  void finish() {
    int64_t documents = 0;
    for (const SetWriter& writer : writers_) documents += writer.documents();
    if (documents == 0) {
      clear_unfinished();
      throw ConfigError(fmt::format(
          "there are no documents in {}: {}; name files that have text",
          in_quotes(options_.inputs.front()),
          inputs_.size() == 1 ? "it has no text"
                              : fmt::format("none of the {} files has text", inputs_.size())));
    }
    for (const SetPlace& place : set_places()) copy_tokenizer(place);
    for (SetWriter& writer : writers_) writer.finish();
    std::error_code error;
    fs::remove(state_path(options_.out), error);
    report();
  }

  void clear_unfinished() const {
    std::error_code error;
    for (const SetPlace& place : set_places()) {
      fs::remove(place.tokens(), error);
      fs::remove(place.document_ends(), error);
    }
    fs::remove(state_path(options_.out), error);
  }

  // A set that brings its tokenizer can be read back, and a run can be spoken with.
  void copy_tokenizer(const SetPlace& place) const {
    std::error_code error;
    const fs::path given = options_.tokenizer;
    const bool is_folder = fs::is_directory(given, error);
    const fs::path from = is_folder ? given : given.parent_path();
    const fs::path to = place.tokens().parent_path();
    const auto copy = [&](const fs::path& file, const char* name) {
      if (fs::exists(to / name, error) && fs::equivalent(file, to / name, error)) return;
      fs::copy_file(file, to / name, fs::copy_options::overwrite_existing, error);
      require(!error, "cannot copy '{}' to '{}': {}", file.string(), to.string(), error.message());
    };
    copy(is_folder ? given / "tokenizer.json" : given, "tokenizer.json");
    for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
      if (fs::exists(from / name, error)) copy(from / name, name);
    }
  }

  PrepareResult describe() {
    const std::vector<SetPlace> places = set_places();
    for (size_t i = 0; i < places.size(); ++i) {
      const SetWriter& writer = writers_[i];
      result_.sets.push_back({i == 0 ? "train" : "valid", places[i].place.string(), writer.tokens(),
                              writer.documents(), writer.tokens() * bytes_of(set_facts().type)});
    }
    result_.vocab_size = tokenizer_.vocab_size();
    result_.end_token = end_token_;
    result_.dtype = name_of(set_facts().type);
    result_.tokenizer = tokenizer_.fingerprint();
    result_.num_empty = state_.num_empty;
    result_.num_bad = state_.num_bad;
    result_.num_inputs = std::ssize(inputs_);
    result_.input_bytes = total_bytes_;
    return std::move(result_);
  }

  const PrepareOptions& options_;
  Tokenizer tokenizer_;
  int32_t end_token_;
  std::vector<PrepareInput> inputs_;
  int64_t total_bytes_ = 0;
  PrepareState state_;
  std::vector<SetWriter> writers_;
  Clock::time_point started_, saved_;
  PrepareResult result_;
};

}  // namespace

PrepareResult prepare(const PrepareOptions& options) {
  require_config(!options.inputs.empty(), "there is nothing to prepare: name files or folders");
  require_config(options.valid >= 0 && options.valid < 1,
                 "the share of validation is {}: it must be at least 0 and below 1", options.valid);
  require_config(!options.out.empty(), "name a folder to write to");
  return PrepareJob(options).run();
}

}  // namespace tessera
