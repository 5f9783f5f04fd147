// The commands of the program, each defined in the source file of its name.
#pragma once

#include <memory>
#include <vector>

#include "tools/command.h"

namespace millrace::tools {

std::unique_ptr<Command> make_bench_command();
std::unique_ptr<Command> make_cache_command();
std::unique_ptr<Command> make_cat_command();
std::unique_ptr<Command> make_create_command();
std::unique_ptr<Command> make_eval_command();
std::unique_ptr<Command> make_plan_command();
std::unique_ptr<Command> make_predict_command();
std::unique_ptr<Command> make_index_command();
std::unique_ptr<Command> make_ls_command();
std::unique_ptr<Command> make_order_command();
std::unique_ptr<Command> make_reshard_command();
std::unique_ptr<Command> make_stats_command();
std::unique_ptr<Command> make_train_command();
std::unique_ptr<Command> make_verify_command();
std::unique_ptr<Command> make_view_command();

/// All of them, in the order of --help.
std::vector<std::unique_ptr<Command>> all_commands();

}  // namespace millrace::tools
