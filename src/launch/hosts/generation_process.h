// The ranks of one generation on this host, and the agent that watches them (launch/agent), in a
// process of their own: whoever holds the lease of this host ends them all by killing it, however
// busy it is.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "launch/agent/child_exit.h"
#include "launch/hosts/control_link.h"
#include "launch/hosts/host_messages.h"
#include "launch/unique_fd.h"

namespace tessera {

class GenerationProcess {
 public:
  // Runs `body` in a copy of this process, which must have no other threads, with its end of a link
  // between the two. The copy is killed when the calling thread ends. Throws Error where there can
  // be no process.
  explicit GenerationProcess(const std::function<GenerationReport(ControlLink& link)>& body);
  ~GenerationProcess();  // kills
  GenerationProcess(const GenerationProcess&) = delete;
  GenerationProcess& operator=(const GenerationProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Becomes ready when it has said something, and when it ends; -1: nothing more will come.
  [[nodiscard]] int fd() const { return link_->fd(); }
  // kSight and kWhere of its ranks, as they come.
  std::optional<ControlFrame> take();
  // kRanks, for it.
  void send(const ControlFrame& order) { link_->send(order); }
  void signal(int number) const;
  void kill();
  // True once it and all processes below it are gone, which adopt_orphans() made children of this
  // one; `other` is a child that is none of them. Ask when the descriptor is ready, and then again
  // and again.
  [[nodiscard]] bool ended(pid_t other);
  // After that: what it said last; none: it could not.
  [[nodiscard]] const std::optional<GenerationReport>& report() const { return report_; }
  [[nodiscard]] const ChildExit& exit() const { return exit_; }

 private:
  pid_t pid_ = 0;
  std::optional<ControlLink> link_;
  std::optional<GenerationReport> report_;
  bool reaped_ = false;
  ChildExit exit_;
};

// A copy of this process, called `name` by ps (15 letters), that runs `body` and exits with what it
// returns, or with its error on standard error and the code of that. It is killed when the calling
// thread ends.
pid_t fork_tied(const char* name, const std::function<int()>& body);

// Makes the children of children that die this process's own, so that their end can be seen.
void adopt_orphans();

}  // namespace tessera
