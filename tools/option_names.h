// The command line with every option by its own name (tools/option_aliases.h has the others), and
// the error for unknown ones.
//
//   --max-epochs, --learning-rate, --batch_size  ->  --epochs, --lr, --batch-size
//
// Threads: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/option_aliases.h"

namespace CLI {
class App;
}

namespace millrace::tools {

/// `app`'s option `name`, written with _ for -, in any case, or as in PyTorch and Lightning.
/// Throws: InvalidArgument, with the nearest name, for none.
KnownOption option_called(const CLI::App& app, std::string_view name);
/// Its long name, without dashes.
std::string option_name(const CLI::App& app, std::string_view name);
/// The same; empty for none.
std::string known_option_name(const CLI::App& app, std::string_view name);
/// Whether an option was called so, and is no more.
bool is_gone(std::string_view name);
/// What --help aliases prints: short forms, and names from other tools.
std::string alias_help(const CLI::App& app);

/// Removes each --no-NAME from the arguments, where NAME is an option without a default and
/// --no-NAME is no option, and returns the names: what a configuration file says of them does not
/// count. Throws: InvalidArgument where NAME is given as well.
std::vector<std::string> take_undone(const CLI::App& app, std::vector<std::string>& words);

/// The arguments with every option replaced by `app`'s name for it. Throws: InvalidArgument for an
/// unknown option, or one without its value. --no-NAME is known where NAME is.
std::vector<std::string> with_known_options(const CLI::App& app,
                                            std::span<const std::string> words);

}  // namespace millrace::tools
