// Runs on several hosts that are processes of this one, meeting on its loopback.
#pragma once

#include <memory>

#include "faults/fault_run.h"
#include "launch/rendezvous/socket.h"

namespace tessera::testing {

struct HostSetting {
  std::string fault = {};  // as TESSERA_FAULT
  std::string flags = {};
  std::string token = "of-the-hosts-of-these-tests";
};

// `Base`: the run that happens to be on several hosts.
template <typename Base>
class HostsRun : public Base {
 protected:
  // A port that is free now.
  HostsRun() : port_(listen_on("127.0.0.1", 0).port) {}

  static constexpr const char* kSlow = "step.begin:generation=0,act=delay=120";

  [[nodiscard]] std::vector<std::string> words(int host, const std::string& flags) const {
    return words_of(
        fmt::format("train run.toml -q --set logging.run_dir=out --resume auto --hosts {} "
                    "--host-rank {} --meet 127.0.0.1:{} {}",
                    hosts_, host, port_, flags));
  }
  // Starts the agent of a host; a second one of the same number needs another `name`.
  Command& start(int host, const HostSetting& as = {}, const std::string& name = "") {
    CommandOptions options = this->with_fault(as.fault);
    options.output = fmt::format("-host{}{}", host, name);
    options.environment.push_back("TESSERA_RUN_TOKEN=" + as.token);
    const std::string flags = as.flags.empty() ? "--restarts 2" : as.flags;
    commands_.push_back(std::make_unique<Command>(this->folder_, words(host, flags), options));
    return *commands_.back();
  }

  // What the agent has started: "tessera-coord", "tessera-ranks".
  static pid_t child_called(pid_t agent, const std::string& name) {
    for (const pid_t child : children_of(agent)) {
      if (read_file("/proc/" + std::to_string(child) + "/comm") == name + "\n") return child;
    }
    return 0;
  }
  static std::map<int, pid_t> ranks_on(const Command& agent) {
    const pid_t keeper = child_called(agent.pid(), "tessera-ranks");
    return keeper == 0 ? std::map<int, pid_t>() : ranks_of(keeper);
  }
  [[nodiscard]] size_t steps_done() const {
    const std::string metrics = this->folder_.path("out/metrics.jsonl");
    if (!std::filesystem::exists(metrics)) return 0;
    const std::string text = read_file(metrics);
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  }
  void await_steps(size_t count) {
    ASSERT_TRUE(wait_until([&] { return steps_done() >= count; })) << said();
  }
  [[nodiscard]] std::string said() const {
    std::string text;
    for (const auto& entry : std::filesystem::directory_iterator(this->folder_.path())) {
      const std::string name = entry.path().filename();
      if (name.starts_with(".stderr")) text += name + ":\n" + read_file(entry.path());
    }
    return text;
  }
  void expect_all_gone() const {
    EXPECT_TRUE(wait_until([&] { return this->left_in_folder() == 0; })) << "processes are left";
  }
  // Both agents end well, with the bits of the undisturbed run.
  void expect_both_survive(Command& first, Command& second) {
    const CommandResult one = first.finish();
    const CommandResult other = second.finish();
    ASSERT_EQ(one.code, 0) << said();
    ASSERT_EQ(other.code, 0) << said();
    this->expect_same_run();
    expect_all_gone();
    EXPECT_FALSE(std::filesystem::exists(this->folder_.path("out/hosts.json")));
  }

  int port_;
  int hosts_ = 2;
  std::vector<std::unique_ptr<Command>> commands_;
};

class HostsTest : public HostsRun<FaultTest> {};

}  // namespace tessera::testing
