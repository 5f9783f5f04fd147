// The options of a command as settings: what the processes of a run compare, what a checkpoint
// keeps and a resumed run compares, and what config.json holds, all from the options' declarations.
//
// Every option is the same for all processes, and for a run that is resumed, unless it is marked
// where it is declared:
//
//   app.add_option("--mean", mean, "...");                                   // neither may differ
//   app.add_option("--epochs", epochs, "...")->check(may_change());          // when resumed
//   app.add_option("--run-dir", run_dir, "...")->check(of_this_start());     // the same, and no
//                                                                            // part of the run
//   app.add_option("--threads", threads, "...")->check(own_of_process());    // between processes
//   app.add_option("--init", init, "...")->check(names_contents());          // by what it names
//
// An option that is bound to a variable has the variable's present value: what a command resolves
// ("auto", 0) it writes there. One whose resolved value is elsewhere says it by default_function().
//
// Threads: one at a time.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "trainer/setting.h"

namespace millrace::tools {

/// Marks: each checks nothing. A run that is resumed may have another value (kStart).
CLI::Validator may_change();
/// The measures of a validation set depend on it; beside another mark.
CLI::Validator measures();
/// Likewise; and it is no part of the run, and is not taken from a config.json (kCall).
CLI::Validator of_this_start();
/// Processes of one run may have different ones (kProcess).
CLI::Validator own_of_process();
/// It names a local file, checkpoint or run, whose content is compared instead of the name.
CLI::Validator names_contents();

/// What a component's option says (tools/component_option.h): its word, with all fields, or one of
/// its fields. Each is a setting; config.json has the word with its fields.
enum class ComponentPart { kWord, kField };
CLI::Validator of_component(ComponentPart part);

/// The options that `declare` adds to `app`.
std::vector<CLI::Option*> added_options(CLI::App& app, const std::function<void()>& declare);
/// Throws: InvalidArgument if the command line gave one of them, which only `reader` reads:
/// "--stage decode".
void refuse_given(const std::vector<CLI::Option*>& options, std::string_view reader);

/// The file of --config gave it, not the command line.
CLI::Validator from_file();
bool is_from_file(CLI::Option& option);

/// Notes the values as they were given, so that a later change of the variables is noticed. Called
/// once, when the words are parsed.
void note_given_values(CLI::App& app);

/// All options but those of the program itself (--help, --config, --json), with their present
/// values; urls without their secrets.
std::vector<trainer::Setting> settings_of(CLI::App& app);

/// The same as a JSON object, by the long names without dashes: numbers, booleans, strings and
/// lists. Left out is what has no value, and what excludes an option that was given.
nlohmann::ordered_json options_json(CLI::App& app);

/// Whether a config.json says something about the option: it is part of the run.
bool is_part_of_run(CLI::Option& option);
/// The words that give the option its present value.
std::vector<std::string> values_of(CLI::Option& option);

}  // namespace millrace::tools
