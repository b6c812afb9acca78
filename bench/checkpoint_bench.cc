// What a save costs beside what it cannot cost less than: the copy of a part beside memcpy, sums
// beside a plain copy, writing and reading beside plain files of the same bytes that are synced and
// dropped from memory as well, and beside dd past the memory of the system (O_DIRECT, fsync). Both
// of a pair take turns; medians, and the ratio of medians.
// usage: checkpoint_bench FOLDER [ROUNDS [key=value ...]]   the keys are those of a run file
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/error.h"
#include "checkpoint/store/committer.h"
#include "launch/unique_fd.h"
#include "runtime/world.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"
#include "train/machine_defaults.h"
#include "train/save/checkpoint_save.h"
#include "train/state/staging.h"
#include "train/weights/weights.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr size_t kWriteBytes = size_t{8} << 20;

double seconds_of(const std::function<void()>& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

// `before`, not timed, is called before each of them.
void compare(const char* what, int64_t bytes, int rounds, const std::function<void()>& ours,
             const std::function<void()>& plain, const std::function<void()>& before) {
  std::vector<double> mine, theirs;
  for (int round = 0; round < rounds; ++round) {
    before();
    mine.push_back(seconds_of(ours));
    before();
    theirs.push_back(seconds_of(plain));
  }
  const double a = median(mine), b = median(theirs);
  std::printf("%-44s %8.1f ms %8.1f ms %7.2f GB/s  time %.2f of plain\n", what, 1e3 * a, 1e3 * b,
              static_cast<double>(bytes) / a * 1e-9, a / b);
}

void write_plain(const std::string& path, const std::vector<std::byte>& bytes) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  require(file.valid(), "cannot write '{}'", path);
  for (size_t at = 0; at < bytes.size(); at += kWriteBytes) {
    const size_t count = std::min(kWriteBytes, bytes.size() - at);
    require(::write(file.get(), bytes.data() + at, count) == static_cast<ssize_t>(count),
            "cannot write '{}'", path);
  }
  require(::fdatasync(file.get()) == 0, "cannot sync '{}'", path);
}

void read_plain(const std::string& path, std::vector<std::byte>& bytes) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t n =
        ::read(file.get(), bytes.data() + got, std::min(kWriteBytes, bytes.size() - got));
    require(n > 0, "cannot read '{}'", path);
    got += static_cast<size_t>(n);
  }
}

// dd of the same bytes, from memory to a file and back.
class Dd {
 public:
  Dd(std::string path, const std::vector<std::byte>& bytes)
      : path_(std::move(path)), memory_(::memfd_create("bytes", 0)) {
    const auto size = static_cast<ssize_t>(bytes.size());
    require(memory_.valid() && ::write(memory_.get(), bytes.data(), bytes.size()) == size,
            "cannot keep {} bytes in memory", size);
  }

  void write() const {
    call(fmt::format("if=/proc/{}/fd/{} of='{}' oflag=direct conv=fsync", ::getpid(), memory_.get(),
                     path_));
  }
  void read() const { call(fmt::format("if='{}' of=/dev/null iflag=direct", path_)); }

 private:
  static void call(const std::string& words) {
    const std::string line = "dd bs=8M status=none " + words;
    require(std::system(line.c_str()) == 0, "'{}' failed", line);
  }

  std::string path_;
  UniqueFd memory_;
};

// From the memory of the system: what is read next comes from the disk.
void drop(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const UniqueFd file(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    if (file.valid()) (void)::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

void measure(World& world, const std::string& folder, int rounds) {
  const CheckpointPlan plan(world.step());
  Executor& executor = world.executor(0);
  const StagingLayout layout = lay_out_staging(plan.layout, plan.save, 0);
  const int64_t bytes = layout.copy_bytes;
  Staging staging(executor.rank().device(), layout);
  std::vector<std::byte> from(static_cast<size_t>(bytes), std::byte{1});
  std::vector<std::byte> to(static_cast<size_t>(bytes), std::byte{2});
  std::printf("%.1f MB of weights and states\n%-44s %11s %11s\n", static_cast<double>(bytes) * 1e-6,
              "", "ours", "plain");
  const auto nothing = [] {};
  compare(
      "copy of the part | memcpy", bytes, rounds, [&] { staging.fill(executor); },
      [&] { std::memcpy(to.data(), from.data(), from.size()); }, nothing);
  compare(
      "copy with CRC-32C | memcpy", bytes, rounds, [&] { (void)copy_with_crc32c(to.data(), from); },
      [&] { std::memcpy(to.data(), from.data(), from.size()); }, nothing);

  const std::unique_ptr<FileOps> files = real_files(folder + "/checkpoints", /*make=*/true);
  const std::string plain = folder + "/plain";
  int64_t step = 0;
  const auto clear = [&] {
    for (const auto& entry : fs::directory_iterator(folder + "/checkpoints")) {
      fs::remove_all(entry.path());
    }
    fs::remove(plain);
    ::sync();
  };
  const auto save = [&] {
    const SaveId id{"bench", 1, "s" + std::to_string(++step)};
    begin_save(*files, id);
    const ShardAck ack =
        write_shard(*files, plan.save, id, step, 0, staging.source(), staging.write_buffer());
    commit_save(*files, plan.save, id, step, {&ack, 1}, nlohmann::json::object());
  };
  compare(
      "save, synced | write and fdatasync", bytes, rounds, save, [&] { write_plain(plain, from); },
      clear);
  const Dd dd(plain, from);
  compare(
      "save, synced | dd oflag=direct conv=fsync", bytes, rounds, save, [&] { dd.write(); }, clear);
  clear();
  save();
  write_plain(plain, from);
  ::sync();
  const auto load = [&] {
    const CheckpointFolder checkpoint = open_checkpoint(*files, step_folder(step));
    (void)load_state(executor, world.step(), plan.layout, *files, checkpoint);
  };
  const auto read = [&] { read_plain(plain, to); };
  compare("load, dropped from memory | read", bytes, rounds, load, read, [&] { drop(folder); });
  compare(
      "load, dropped from memory | dd iflag=direct", bytes, rounds, load, [&] { dd.read(); },
      [&] { drop(folder); });
  compare("load, in memory | read", bytes, rounds, load, read, nothing);
  clear();
}

void run(const std::string& folder, int rounds, const std::vector<std::string>& changes) {
  RunSpec spec = parse_run_file("", "", changes, nullptr);
  spec.train.threads = 1;
  resolve(spec);
  use_machine_defaults(spec);
  World world(build_step(spec, StepKind::kTraining));
  world.run([&](int, Executor& executor) {
    load_weights(executor, world.step(), initial_weights(spec.model, 1));
  });
  measure(world, folder, rounds);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: checkpoint_bench FOLDER [ROUNDS [key=value ...]]\n");
    return 2;
  }
  std::vector<std::string> changes = {"model.layers=6", "model.hidden=512",   "model.ffn=1408",
                                      "model.heads=8",  "model.vocab=8192",   "train.seq_len=32",
                                      "train.steps=1",  "train.micro_batch=1"};
  changes.insert(changes.end(), argv + std::min(argc, 3), argv + argc);
  try {
    tessera::run(argv[1], argc > 2 ? std::max(1, std::atoi(argv[2])) : 5, changes);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "checkpoint_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
