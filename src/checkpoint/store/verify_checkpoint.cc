#include "checkpoint/store/verify_checkpoint.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "checkpoint/store/block_reader.h"
#include "checkpoint/store/checkpoint_folder.h"

namespace tessera {
namespace {

// Runs `check` and keeps what it throws.
void attempt(std::vector<CheckProblem>& problems, const std::function<void()>& check) {
  try {
    check();
  } catch (const Error& error) {
    problems.push_back({error.code(), error.what()});
  }
}

// Every block of a shard; goes on after a bad one, so that all are named.
int64_t check_blocks(const FileOps& files, const CheckpointFolder& checkpoint, int64_t file,
                     const FileSums& sums, std::vector<CheckProblem>& problems) {
  const std::string& name = checkpoint.manifest.files[static_cast<size_t>(file)].name;
  if (sums.missing) return 0;
  BlockReader blocks(files, {checkpoint.folder, name}, sums);
  const int64_t count = blocks_of(sums.bytes);
  for (int64_t block = 0; block < count; ++block) {
    attempt(problems, [&] {
      const int64_t begin = block * kStoreBlockBytes;
      (void)blocks.read(begin, std::min(sums.bytes, begin + kStoreBlockBytes));
    });
  }
  return count;
}

struct ShardReport {
  std::vector<CheckProblem> problems;
  int64_t blocks = 0;
};

ShardReport check_one(const FileOps& files, const CheckpointFolder& checkpoint, int64_t file,
                      bool deep) {
  ShardReport report;
  attempt(report.problems, [&] {
    const FileSums sums = check_shard(files, checkpoint, file);
    if (deep) report.blocks = check_blocks(files, checkpoint, file, sums, report.problems);
  });
  // A header that is damaged must not hide the blocks behind it.
  if (deep && report.blocks == 0 && !report.problems.empty()) {
    std::vector<CheckProblem> more;
    attempt(more, [&] {
      const FileSums sums = load_sums(files, checkpoint, file);
      report.blocks = check_blocks(files, checkpoint, file, sums, report.problems);
    });
  }
  return report;
}

std::vector<ShardReport> check_all(const FileOps& files, const CheckpointFolder& checkpoint,
                                   bool deep, int threads) {
  std::vector<ShardReport> reports(checkpoint.manifest.files.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < reports.size(); i = next++) {
      reports[i] = check_one(files, checkpoint, static_cast<int64_t>(i), deep);
    }
  };
  const size_t helpers = std::min(reports.size(), static_cast<size_t>(std::max(1, threads))) - 1;
  {
    std::vector<std::jthread> team;  // joins at the end of the block
    for (size_t i = 0; i < helpers; ++i) team.emplace_back(work);
    work();
  }
  return reports;
}

}  // namespace

ExitCode CheckReport::code() const {
  constexpr std::array kWorstFirst = {ExitCode::kVersion, ExitCode::kCorrupt, ExitCode::kIo,
                                      ExitCode::kAbsent};
  for (const ExitCode code : kWorstFirst) {
    const auto has = [&](const CheckProblem& problem) { return problem.code == code; };
    if (std::ranges::any_of(problems, has)) return code;
  }
  return problems.empty() ? ExitCode::kOk : problems.front().code;
}

CheckReport verify_checkpoint(const FileOps& files, const std::string& folder, bool deep,
                              int threads, bool allow_unchecked) {
  (void)files.list(folder);
  CheckReport report;
  CheckpointFolder checkpoint;
  attempt(report.problems, [&] { checkpoint = open_checkpoint(files, folder, allow_unchecked); });
  if (!report.problems.empty()) return report;
  report.step = checkpoint.step();
  report.files = std::ssize(checkpoint.manifest.files);
  report.tensors = std::ssize(checkpoint.manifest.tensors);
  report.bytes = checkpoint.manifest.data_bytes();
  std::vector<ShardReport> shards = check_all(files, checkpoint, deep, threads);
  attempt(report.problems, [&] { check_entries(files, checkpoint); });
  if (allow_unchecked) {
    attempt(report.problems, [&] { report.unchecked = shards_without_sums(files, checkpoint); });
  }
  for (ShardReport& shard : shards) {
    report.checked_blocks += shard.blocks;
    for (CheckProblem& problem : shard.problems) report.problems.push_back(std::move(problem));
  }
  return report;
}

}  // namespace tessera
