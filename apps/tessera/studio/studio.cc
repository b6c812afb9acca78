// `tessera studio`: serves the page and the runs, or writes the page to a folder.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "base/error.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/output_flags.h"
#include "cli/write_file.h"
#include "http/access.h"
#include "http/server.h"
#include "listen/listen_address.h"
#include "studio/browser.h"
#include "studio/routes.h"
#include "studio/studio_command.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr uint16_t kUsualPort = 8123;
constexpr std::string_view kDefaultFolder = "runs", kPageName = "studio.html";
constexpr std::chrono::milliseconds kSignalInterval{20};

void check(const StudioOptions& options) {
  check_port(options.port);
  require_config(is_loopback(options.host) || !options.token.empty(),
                 "--host {} lets others in: give --token as well, such as the output of `openssl "
                 "rand -hex 16`, or keep 127.0.0.1 and use ssh -L",
                 options.host);
  if (!options.token.empty()) http::require_usable_token(options.token);
}

int export_page(const StudioOptions& options, Console& console) {
  const StudioPage page(embedded_studio_page());
  require(page.is_built(),
          "this tessera was built without web/studio.html.gz: build the page first (cd web; npm "
          "ci; npm run build), then tessera");
  fs::create_directories(options.export_to);
  const fs::path path = fs::path(options.export_to) / kPageName;
  std::error_code error;
  const fs::file_status there = fs::symlink_status(path, error);
  if (fs::exists(there)) {
    std::string start(4096, '\0');
    std::ifstream file(path, std::ios::binary);
    file.read(start.data(), static_cast<std::streamsize>(start.size()));
    require_config(fs::is_regular_file(there) && is_studio_page(start),
                   "'{}' is there and no page of Tessera's: move it away, or export to another "
                   "folder",
                   path.string());
  }
  write_file(path.string(), page.html(), console);
  return 0;
}

http::ServerOptions server_options(const StudioOptions& options, const StudioState& state) {
  http::ServerOptions server;
  server.address = listen_address(options.host);
  server.port = static_cast<uint16_t>(options.port);
  server.body_bytes = size_t{64} << 10;  // nothing that is asked has a body
  server.fields = state.page.security_fields();
  return server;
}

// The usual port where it is free, so that a link that was kept still works.
std::unique_ptr<http::Server> start_server(const http::ServerOptions& options,
                                           const http::Handler& handler) {
  if (options.port != 0) return std::make_unique<http::Server>(options, handler);
  http::ServerOptions usual = options;
  usual.port = kUsualPort;
  try {
    return std::make_unique<http::Server>(usual, handler);
  } catch (const ConfigError&) {
    throw;  // the address is wrong, with any port
  } catch (const Error&) {
    return std::make_unique<http::Server>(options, handler);
  }
}

std::string link_of(const StudioOptions& options, uint16_t port) {
  const std::string query = options.token.empty() ? "" : "?token=" + options.token;
  return link_to(options.host, port) + "/" + query;
}

void announce(const StudioOptions& options, const StudioState& state, uint16_t port,
              Console& console) {
  console.out << link_of(options, port) << '\n';
  console.out.flush();
  if (console.quiet) return;
  const size_t runs = state.runs.list().size();
  console.err << fmt::format("tessera: {} run{} in {}; ^C ends\n", runs, runs == 1 ? "" : "s",
                             fmt::join(state.runs.folders(), ", "));
  if (is_loopback(options.host)) {
    console.err << fmt::format("from another machine: ssh -L {0}:localhost:{0} {1}\n", port,
                               host_name());
  }
  if (!state.page.is_built()) {
    console.err
        << "tessera: this build has no page (web/studio.html.gz): only api/runs is served\n";
  }
}

}  // namespace

Command add_studio(CLI::App& root, const Environment& environment) {
  CLI::App* app =
      add_command(root, "studio",
                  {"Serve the studio: a page that teaches, plans, and shows runs while they train.",
                   "tessera studio runs/demo --open", "tessera train examples/demo.toml"});
  auto options = std::make_shared<StudioOptions>();
  add_list(*app, "runs", options->runs, "[RUN...]",
           "run directories, or folders of them (default runs)");
  add_whole(
      *app, "--port", options->port, 0,
      fmt::format("port to listen on (default {}, or any other where that is taken)", kUsualPort));
  add_text(*app, "--host", options->host, "ADDRESS",
           "address to listen on (default 127.0.0.1); any other than loopback needs --token");
  add_text(*app, "--token", options->token, "TOKEN",
           "what a visitor must know, 16 characters or more; it is part of the link");
  add_switch(*app, "--open", options->open, "open it in the browser");
  add_output_folder(*app, "--export", options->export_to,
                    "write studio.html, which needs no server, to DIR instead");
  return {app, [options, &environment](Console& console) {
            return run_studio(*options, environment, console);
          }};
}

int run_studio(const StudioOptions& options, const Environment& environment, Console& console) {
  check(options);
  if (!options.export_to.empty()) return export_page(options, console);
  StudioState state{options.runs.empty() ? RunTable::of_default(std::string(kDefaultFolder))
                                         : RunTable(options.runs),
                    StudioPage(embedded_studio_page())};
  const InterruptGuard interrupt;
  const http::AccessRules rules{.loopback_only = is_loopback(options.host),
                                .token = options.token,
                                .cookie_name = "tessera_studio"};
  const auto server = start_server(server_options(options, state), studio_handler(state, rules));
  announce(options, state, server->port(), console);
  if (options.open && !open_in_browser(link_of(options, server->port()), environment)) {
    console.err << "tessera: there is no xdg-open here: open the link yourself\n";
  }
  while (!interrupt.interrupted()) std::this_thread::sleep_for(kSignalInterval);
  return kSignalCode + interrupt.signal();
}

}  // namespace tessera
