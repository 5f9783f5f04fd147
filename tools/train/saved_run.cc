#include "tools/train/saved_run.h"

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/base/error.h"
#include "io/base/json.h"
#include "tools/usage_text.h"
#include "trainer/checkpoint.h"

namespace millrace::tools {

SavedRun::SavedRun(std::string text)
    : text_(std::move(text)), choice_(ModelChoice::from_json(text_)) {}

SavedRun SavedRun::of_checkpoint(const std::string& path, const io::Opener& opener) {
  try {
    return SavedRun(trainer::read_checkpoint_state(path, opener).options);
  } catch (Error& error) {
    error.annotate({.url = path});
    throw;
  }
}

/// Empty where the run does not say, as one of an earlier release.
std::string SavedRun::value_of(const std::string& name) const {
  const auto json = parse_json<nlohmann::json>(text_, "the checkpoint's options");
  const nlohmann::json options = json.value("options", nlohmann::json::object());
  const auto found = options.find(name);
  return found != options.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::vector<std::string> SavedRun::give(const std::vector<std::string>& names,
                                        CLI::App& app) const {
  std::vector<std::string> given;
  for (const std::string& name : names) {
    CLI::Option& option = *app.get_option("--" + name);
    const std::string value = value_of(name);
    if (!option.empty() || value.empty() || value == option.get_default_str()) continue;
    try {
      option.add_result(value);
      option.run_callback();
    } catch (const CLI::ParseError& error) {
      throw Error(ErrorCode::kCorrupt, "the checkpoint's options: " + usage_text(error));
    }
    given.push_back("--" + name + " " + value);
  }
  return given;
}

}  // namespace millrace::tools
