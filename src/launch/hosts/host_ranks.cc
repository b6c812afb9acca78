#include "launch/hosts/host_ranks.h"

#include "base/error.h"
#include "base/failure.h"
#include "launch/hosts/rank_mesh.h"

namespace tessera {
namespace {

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ",") + text;
  return all;
}

void tell_ranks(AgentOptions& agent, const HostRanks& here, const std::string& token) {
  const auto tell = [&](std::string_view name, std::string value) {
    agent.environment.insert_or_assign(std::string(name), std::move(value));
  };
  for (const std::string& variable : here.start.environment) {
    const size_t equals = variable.find('=');
    if (equals != std::string::npos) {
      tell(variable.substr(0, equals), variable.substr(equals + 1));
    }
  }
  tell(agent_variable::kLocalSize, std::to_string(here.start.ranks));
  tell(agent_variable::kAddresses, joined(here.start.addresses));
  tell(agent_variable::kMeshKey, mesh_key(token, here.run, here.generation));
  tell(agent_variable::kRunId, fmt::format("{:016x}", here.run));
}

// The coordinator, at the other end of the agent's connections.
class LinkedOverseer final : public Overseer {
 public:
  explicit LinkedOverseer(ControlLink& link) : link_(link) {}

  [[nodiscard]] int fd() const override { return link_.fd(); }
  std::optional<RankCommand> take() override {
    try {
      link_.send_some();
      const std::optional<ControlFrame> frame = link_.take();
      if (frame && frame->kind == ControlKind::kRanks) return parse_order(frame->body);
    } catch (const Error&) {
      link_.close();  // the agent on the other side ends this process when it ends
    }
    return std::nullopt;
  }
  // An agent that does not listen hears the next one.
  void tell(const HostSight& sight) override {
    if (!link_.has_output()) link_.send({.kind = ControlKind::kSight, .body = to_body(sight)});
  }
  void tell(const HostWhereabouts& whereabouts) override {
    link_.send({.kind = ControlKind::kWhere, .body = to_body(whereabouts)});
  }

 private:
  ControlLink& link_;
};

}  // namespace

GenerationReport run_host_ranks(AgentOptions agent, const HostRanks& here, const std::string& token,
                                ControlLink& link) {
  GenerationReport report;
  LinkedOverseer overseer(link);
  try {
    agent.ranks = here.start.world;
    agent.part = {.first_rank = here.start.first_rank,
                  .ranks = here.start.ranks,
                  .generation = static_cast<int>(here.generation),
                  .listeners = here.listeners,
                  .overseer = &overseer};
    agent.bytes_per_rank = 1;  // what ranks share goes over sockets
    agent.restarts = 0;
    tell_ranks(agent, here, token);
    agent.on_loss = [&](const RankLoss& loss, const RunState& run) {
      report.loss = loss;
      report.opened = run.opened;
    };
    agent.on_end = [&](const RunState& run) { report.opened = report.opened || run.opened; };
    agent.on_failure = [&](const std::string& text) { report.message = text; };
    report.exit_code = run_agent(agent);
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    report = {.exit_code = static_cast<int>(failure.code), .message = failure.text};
  }
  return report;
}

}  // namespace tessera
