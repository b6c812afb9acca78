#include "launch/agent/stacks/rank_stacks.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <thread>

#include "base/text/printable.h"
#include "base/text/text.h"
#include "comm/shm/stack_answers.h"
#include "launch/agent/stacks/code_names.h"
#include "launch/system_files.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookEvery{2};
constexpr size_t kMostThreads = shared::kStackThreads;
constexpr size_t kCallsInLine = 4;

// A thread as the system sees it.
struct ThreadSight {
  pid_t tid = 0;
  std::string text;  // "tessera, sleeps in futex_do_wait (system call 202)"
};

struct AskedRank {
  pid_t pid = 0;
  std::vector<ThreadSight> threads = {};
  size_t more_threads = 0;
  size_t asked = 0;
};

const char* name_of_state(char state) {
  switch (state) {
    case 'R':
      return "runs";
    case 'S':
      return "sleeps";
    case 'D':
      return "waits inside the system and cannot be interrupted";
    case 'T':
      return "is stopped";
    case 't':
      return "is held by a debugger";
    default:
      return "is ending";
  }
}

std::string what_system_says(pid_t pid, pid_t tid) {
  const std::string folder = fmt::format("/proc/{}/task/{}/", pid, tid);
  const std::string stat = first_line(folder + "stat");
  const size_t name_end = stat.rfind(") ");
  if (name_end == std::string::npos) return "has ended";
  std::string text = fmt::format("{}, {}", shortened(first_line(folder + "comm")),
                                 name_of_state(stat.c_str()[name_end + 2]));
  const std::string where = first_line(folder + "wchan");
  if (!where.empty() && where != "0") text += " in " + shortened(where);
  const std::string call = first_line(folder + "syscall");
  const size_t end = call.find(' ');
  if (end != std::string::npos && call[0] >= '0' && call[0] <= '9') {
    text += fmt::format(" (system call {})", shortened(call.substr(0, end)));
  }
  return text;
}

// Before its threads are woken by the question.
AskedRank look_at(pid_t pid) {
  AskedRank rank{.pid = pid};
  std::error_code gone;
  std::vector<pid_t> tids;
  for (std::filesystem::directory_iterator entry(fmt::format("/proc/{}/task", pid), gone), end;
       !gone && entry != end; entry.increment(gone)) {
    const std::string name = entry->path().filename().string();
    pid_t tid = 0;
    std::from_chars(name.data(), name.data() + name.size(), tid);
    if (tid > 0) tids.push_back(tid);
  }
  std::sort(tids.begin(), tids.end());
  // The first is the one that computes.
  std::stable_partition(tids.begin(), tids.end(), [&](pid_t tid) { return tid == pid; });
  rank.more_threads = tids.size() - std::min(tids.size(), kMostThreads);
  tids.resize(tids.size() - rank.more_threads);
  for (const pid_t tid : tids) rank.threads.push_back({tid, what_system_says(pid, tid)});
  return rank;
}

void ask(AskedRank& rank) {
  for (const ThreadSight& thread : rank.threads) {
    rank.asked += ::syscall(SYS_tgkill, rank.pid, thread.tid, kStackSignal) == 0 ? 1 : 0;
  }
}

void wait_for_answers(const ShmMemory& memory, const std::vector<AskedRank>& ranks) {
  const Clock::time_point deadline = Clock::now() + kAnswerTime;
  const auto all = [&] {
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (memory.stacks(static_cast<int>(rank)).size() < ranks[rank].asked) return false;
    }
    return true;
  };
  while (!all() && Clock::now() < deadline) std::this_thread::sleep_for(kLookEvery);
}

std::vector<std::string> names_of(const ShmThreadStack& stack, const CodeNames& names) {
  std::vector<std::string> calls;
  for (const uint64_t address : stack.frames) calls.push_back(names.name(address, !calls.empty()));
  return calls;
}

// "    #0 clock_nanosleep" and so on.
std::string in_lines(const std::vector<std::string>& calls) {
  std::string text;
  for (size_t i = 0; i < calls.size(); ++i) text += fmt::format("    #{} {}\n", i, calls[i]);
  return text;
}

// The innermost ones, without those through which the standard library calls another.
std::string in_one_line(std::vector<std::string> calls) {
  std::erase_if(calls,
                [](const std::string& call) { return call.find("std::_") < call.find('<'); });
  const bool all = calls.size() <= kCallsInLine;
  if (!all) calls.resize(kCallsInLine);
  return fmt::format("{}{}", fmt::join(calls, " < "), all ? "" : " < ...");
}

}  // namespace

RankStacks ask_for_stacks(const ShmMemory& memory, const std::vector<pid_t>& pids) {
  std::vector<AskedRank> ranks;
  for (const pid_t pid : pids) ranks.push_back(pid > 0 ? look_at(pid) : AskedRank{});
  for (AskedRank& rank : ranks) ask(rank);
  wait_for_answers(memory, ranks);
  RankStacks told;
  MappedFiles files;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const AskedRank& rank = ranks[i];
    if (pids[i] == kNotHere) continue;
    told.at.emplace_back();
    if (rank.pid == 0) {
      told.text += fmt::format("rank {}: no process\n", i);
      continue;
    }
    const ShmRankStatus status = memory.status(static_cast<int>(i));
    const std::string& last = status.last_call;
    told.text += fmt::format("rank {} (pid {}), {} {}, last call {}\n", i, rank.pid,
                             name_of(status.progress.section), status.progress.step,
                             last.empty() ? "none" : last);
    for (const std::string& work : status.work) told.text += fmt::format("  {}\n", work);
    const std::vector<ShmThreadStack> stacks = memory.stacks(static_cast<int>(i));
    const CodeNames names(rank.pid, files);
    for (const ThreadSight& thread : rank.threads) {
      told.text += fmt::format("  thread {}: {}\n", thread.tid, thread.text);
      const auto stack = std::find_if(stacks.begin(), stacks.end(), [&](const ShmThreadStack& one) {
        return one.tid == thread.tid;
      });
      if (stack == stacks.end()) {
        told.text += "    (it has not said which calls it is in)\n";
        continue;
      }
      const std::vector<std::string> calls = names_of(*stack, names);
      told.text += in_lines(calls);
      if (thread.tid == rank.pid) told.at.back() = in_one_line(calls);
    }
    if (rank.more_threads > 0) {
      told.text += fmt::format("  and {}\n",
                               count_of(static_cast<int64_t>(rank.more_threads), "more thread"));
    }
  }
  return told;
}

}  // namespace tessera
