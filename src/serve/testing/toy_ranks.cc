#include "serve/testing/toy_ranks.h"

#include <algorithm>
#include <numeric>
#include <sstream>
#include <utility>

#include "base/error.h"

extern char** environ;

namespace tessera::serve::testing {
namespace {

// A whole number below 2^20, so that sums of them are exact.
double share_of(int32_t token, int64_t position) {
  uint64_t x = static_cast<uint64_t>(token) * 0x9e3779b97f4a7c15U +
               static_cast<uint64_t>(position + 1) * 0xbf58476d1ce4e5b9U;
  x ^= x >> 31U;
  x *= 0x94d049bb133111ebU;
  return static_cast<double>((x >> 40U) & 0xfffffU);
}

int32_t token_of(double sum, int64_t vocab) {
  return static_cast<int32_t>(static_cast<int64_t>(sum) % vocab);
}

// Position p is computed by stage p mod pp, on part p / pp mod tp.
class ToyWorker final : public RankWorker {
 public:
  ToyWorker(CommWorld& world, const ServeShape& shape, const ToyMesh& mesh)
      : shape_(shape),
        mesh_(mesh),
        stage_(world.rank() / mesh.tp),
        part_(world.rank() % mesh.tp),
        cache_(static_cast<size_t>(shape.num_pages * shape.page_size), -1) {
    std::vector<int> parts(static_cast<size_t>(mesh.tp));
    std::iota(parts.begin(), parts.end(), stage_ * mesh.tp);
    tp_ = world.join("tp", parts);
    std::vector<int> stages;
    for (int stage = 0; stage < mesh.pp; ++stage) stages.push_back(stage * mesh.tp + part_);
    pp_ = world.join("pp", stages);
  }

  [[nodiscard]] bool samples() const override { return stage_ == mesh_.pp - 1 && part_ == 0; }

  FrameResult run(const Frame& frame, const AwaitMasks& masks) override {
    if (frame.masks_follow && samples()) (void)masks();
    for (const PageCopy& copy : frame.copies) {
      std::copy_n(place(copy.from, 0), shape_.page_size, place(copy.to, 0));
    }
    std::vector<double> sums = mine(frame);
    const auto count = static_cast<int64_t>(sums.size());
    if (mesh_.tp > 1 && count > 0) tp_->all_reduce(sums.data(), count, DType::kF64);
    if (stage_ > 0 && count > 0) {
      std::vector<double> before(sums.size());
      pp_->receive(before.data(), count, DType::kF64, stage_ - 1);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += before[i];
    }
    if (stage_ + 1 < mesh_.pp && count > 0) {
      pp_->send(sums.data(), count, DType::kF64, stage_ + 1);
    }
    FrameResult result{.number = frame.number, .tokens = {}};
    for (const double sum : sums) {
      SampledToken token;
      token.token = samples() ? token_of(sum, shape_.vocab) : 0;
      result.tokens.push_back(token);
    }
    return result;
  }

 private:
  int32_t* place(int32_t page, int64_t offset) {
    return cache_.data() + page * shape_.page_size + offset;
  }
  int32_t& token_at(const FrameSequence& sequence, int64_t position) {
    return *place(sequence.pages[static_cast<size_t>(position / shape_.page_size)],
                  position % shape_.page_size);
  }

  // This rank's part of the sum of every row.
  std::vector<double> mine(const Frame& frame) {
    std::vector<double> sums(frame.rows.size());
    int64_t first = 0;
    for (const FrameSequence& sequence : frame.sequences) {
      for (int64_t i = 0; i < sequence.num_tokens; ++i) {
        token_at(sequence, sequence.cached + i) = frame.tokens[static_cast<size_t>(first + i)];
      }
      for (size_t row = 0; row < frame.rows.size(); ++row) {
        const int64_t index = frame.rows[row].token_index - first;
        if (index < 0 || index >= sequence.num_tokens) continue;
        for (int64_t p = 0; p <= sequence.cached + index; ++p) {
          const bool is_mine = p % mesh_.pp == stage_ && p / mesh_.pp % mesh_.tp == part_;
          if (is_mine) sums[row] += share_of(token_at(sequence, p), p);
        }
      }
      first += sequence.num_tokens;
    }
    return sums;
  }

  ServeShape shape_;
  ToyMesh mesh_;
  int stage_;
  int part_;
  std::vector<int32_t> cache_;
  std::unique_ptr<Communicator> tp_;
  std::unique_ptr<Communicator> pp_;
};

}  // namespace

ServeShape toy_shape(const ToyMesh& mesh) {
  return {.vocab = 997,
          .max_context = 512,
          .page_size = 8,
          .num_pages = 256,
          .max_tokens = 128,
          .max_sequences = 16,
          .max_rows = 16,
          .stages = mesh.pp};
}

std::string toy_task(const ToyMesh& mesh) { return fmt::format("{} {}", mesh.tp, mesh.pp); }

int32_t toy_token_after(std::span<const int32_t> text, int64_t vocab) {
  double sum = 0;
  for (size_t p = 0; p < text.size(); ++p) sum += share_of(text[p], static_cast<int64_t>(p));
  return token_of(sum, vocab);
}

std::unique_ptr<RankWorker> make_toy_worker(const RankSetup& setup) {
  std::istringstream text(setup.task.text);
  ToyMesh mesh;
  text >> mesh.tp >> mesh.pp;
  require(!text.fail() && mesh.ranks() == setup.world.size(), "no toy task: '{}'", setup.task.text);
  setup.tell("plays");
  return std::make_unique<ToyWorker>(setup.world, setup.task.shape, mesh);
}

ProcessRunnerOptions toy_options(const ToyMesh& mesh, const std::string& fault) {
  ProcessRunnerOptions options;
  options.processes.ranks = mesh.ranks();
  options.processes.arguments = {"serve_test", "--as-toy-rank"};
  options.processes.environment = environment_from(environ);
  options.processes.environment["TESSERA_FAULT"] = fault;
  options.processes.bytes_per_rank = int64_t{1} << 20;
  options.task = {.text = toy_task(mesh), .shape = toy_shape(mesh)};
  options.sampling_rank = mesh.sampling_rank();
  return options;
}

std::vector<int32_t> generate_alone(FrameRunner& runner, std::span<const int32_t> text, int more,
                                    int chunk, uint64_t& number) {
  const ServeShape& shape = runner.shape();
  std::vector<int32_t> all(text.begin(), text.end());
  std::vector<int32_t> pages(static_cast<size_t>(shape.max_context / shape.page_size));
  std::iota(pages.begin(), pages.end(), 0);
  RowSampling greedy;
  greedy.how = std::make_shared<const Sampling>(Sampling{.temperature = 0});
  size_t cached = 0;
  int under_way = 0;
  std::vector<int32_t> answer;
  const auto finish_one = [&] {
    const FrameResult result = runner.finish();
    --under_way;
    for (const SampledToken& token : result.tokens) answer.push_back(token.token);
  };
  while (static_cast<int>(answer.size()) < more) {
    if (cached == all.size()) {  // the next token depends on what is under way
      while (under_way > 0) finish_one();
      all.push_back(answer.back());
      if (static_cast<int>(answer.size()) == more) break;
    }
    const size_t count = std::min(static_cast<size_t>(chunk), all.size() - cached);
    Frame frame;
    frame.number = number++;
    frame.tokens.assign(all.begin() + static_cast<std::ptrdiff_t>(cached),
                        all.begin() + static_cast<std::ptrdiff_t>(cached + count));
    FrameSequence sequence;
    sequence.num_tokens = static_cast<int32_t>(count);
    sequence.cached = static_cast<int32_t>(cached);
    cached += count;
    const auto size = static_cast<size_t>(shape.page_size);
    sequence.pages.assign(pages.begin(),
                          pages.begin() + static_cast<std::ptrdiff_t>((cached + size - 1) / size));
    frame.sequences.push_back(std::move(sequence));
    if (cached == all.size()) {
      greedy.position = static_cast<int64_t>(cached);
      frame.rows.push_back({.token_index = static_cast<int32_t>(count - 1), .sampling = greedy});
    }
    if (under_way == shape.stages) finish_one();
    runner.start(frame);
    ++under_way;
  }
  while (under_way > 0) finish_one();
  return answer;
}

}  // namespace tessera::serve::testing
