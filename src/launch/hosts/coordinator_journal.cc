#include "launch/hosts/coordinator_journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/error.h"
#include "launch/unique_fd.h"

namespace tessera {
namespace {

constexpr int kFormat = 1;
constexpr std::streamoff kMostBytes = 64 * 1024;

void require_io(bool ok, const std::string& path) {
  if (!ok) throw IoError(fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
}

void sync_folder(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  const UniqueFd fd(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC));
  require_io(fd.valid() && ::fsync(fd.get()) == 0, folder);
}

nlohmann::ordered_json to_json(const PastFailures& past) {
  nlohmann::ordered_json losses = nlohmann::ordered_json::array();
  for (const RankLoss& loss : past.losses) {
    losses.push_back({{"rank", loss.rank},
                      {"code", loss.exit.code},
                      {"signal", loss.exit.signal},
                      {"section", static_cast<int>(loss.section)},
                      {"step", loss.step},
                      {"curable", loss.curable}});
  }
  return {{"restarts_used", past.used}, {"losses", losses}};
}

PastFailures failures_from(const nlohmann::json& json) {
  PastFailures past{.used = json.at("restarts_used").get<int>()};
  for (const nlohmann::json& one : json.at("losses")) {
    const auto section = one.at("section").get<uint32_t>();
    if (section > static_cast<uint32_t>(RunSection::kEnd)) throw std::out_of_range("section");
    past.losses.push_back(
        {.rank = one.at("rank").get<int>(),
         .exit = {.code = one.at("code").get<int>(), .signal = one.at("signal").get<int>()},
         .section = static_cast<RunSection>(section),
         .step = one.at("step").get<int64_t>(),
         .curable = one.at("curable").get<bool>()});
  }
  return past;
}

}  // namespace

std::optional<CoordinatorState> read_coordinator_state(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text(static_cast<size_t>(kMostBytes), '\0');
  file.read(text.data(), kMostBytes);
  text.resize(static_cast<size_t>(file.gcount()));
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    if (json.at("format").get<int>() > kFormat) {
      throw Error(fmt::format("'{}' is of format {}, this program knows {}: use the newer one",
                              path, json.at("format").get<int>(), kFormat),
                  ExitCode::kVersion);
    }
    CoordinatorState state;
    state.run = std::stoull(json.at("run").get<std::string>(), nullptr, 16);
    state.generation = json.at("generation").get<uint64_t>();
    state.places = json.at("places").get<std::vector<int>>();
    state.opened = json.at("opened").get<bool>();
    if (json.contains("failures")) state.failures = failures_from(json.at("failures"));
    return state;
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    throw Error(fmt::format("'{}' does not say which generation of ranks was the last: remove it "
                            "when no host of the run has ranks any more",
                            path),
                ExitCode::kCorrupt);
  }
}

void write_coordinator_state(const std::string& path, const CoordinatorState& state) {
  const nlohmann::ordered_json json = {{"format", kFormat},
                                       {"run", fmt::format("{:016x}", state.run)},
                                       {"generation", state.generation},
                                       {"places", state.places},
                                       {"opened", state.opened},
                                       {"failures", to_json(state.failures)}};
  const std::string text = json.dump() + "\n";
  const std::string beside = path + ".new";
  const UniqueFd fd(
      ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  require_io(fd.valid(), beside);
  require_io(::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()),
             beside);
  require_io(::fsync(fd.get()) == 0, beside);
  require_io(::rename(beside.c_str(), path.c_str()) == 0, path);
  sync_folder(path);
}

}  // namespace tessera
