# The processes around the pure library: ingest, reports, the serve loop, and the executable `ccld`.
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
ccld_find_zmq()
pkg_check_modules(CCLD_HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)
# The model and the text form of metrics. By its .pc file: its CMake file also wants an HTTP server and libcurl.
pkg_check_modules(CCLD_PROMETHEUS REQUIRED IMPORTED_TARGET prometheus-cpp-core)
pkg_check_modules(CCLD_ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(CCLD_SQLITE REQUIRED IMPORTED_TARGET sqlite3)  # incidents with their revisions: history/README.md
pkg_check_modules(CCLD_CRYPTO REQUIRED IMPORTED_TARGET libcrypto)  # signatures of the webhook, hashes of tokens
pkg_check_modules(CCLD_SSL REQUIRED IMPORTED_TARGET libssl)  # https of the query API
pkg_check_modules(CCLD_NCURSES REQUIRED IMPORTED_TARGET ncursesw)  # ccld top
find_path(CCLD_CPPZMQ_INCLUDE zmq.hpp REQUIRED)
find_path(CCLD_NATS_INCLUDE nats/nats.h REQUIRED)  # client of NATS, which is loaded only by a node of a cluster
find_path(CCLD_PROTOZERO_INCLUDE protozero/pbf_writer.hpp REQUIRED)

file(GLOB ccld_page_parts CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/page/*.html ${CMAKE_CURRENT_SOURCE_DIR}/page/*.css
     ${CMAKE_CURRENT_SOURCE_DIR}/page/*.js)
add_custom_command(
  OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/page_files.cc
  COMMAND ${CMAKE_COMMAND} -DOUT=${CMAKE_CURRENT_BINARY_DIR}/page_files.cc -DFOLDER=${CMAKE_CURRENT_SOURCE_DIR}/page
          -P ${CMAKE_CURRENT_SOURCE_DIR}/page/embed.cmake
  DEPENDS ${ccld_page_parts} ${CMAKE_CURRENT_SOURCE_DIR}/page/embed.cmake
  COMMENT "Putting the page into the program"
  VERBATIM)

add_library(ccld_host_port STATIC server/descriptor_limit.cc server/host_port.cc)
target_compile_features(ccld_host_port PUBLIC cxx_std_20)
target_link_libraries(ccld_host_port PUBLIC absl::statusor absl::strings PRIVATE ccld_options)

# Training processes parse with it, too: ccld_validate_rank.
add_library(ccld_bounded_json STATIC report/bounded_json.cc)
target_compile_features(ccld_bounded_json PUBLIC cxx_std_20)
target_link_libraries(ccld_bounded_json
  PUBLIC nlohmann_json::nlohmann_json absl::statusor absl::strings PRIVATE ccld_options)

add_library(ccld_server STATIC
  admission/files.cc
  admission/key_list.cc
  admission/key_pair.cc
  admission/rotation.cc
  admission/lines.cc
  admission/reloader.cc
  admission/token_list.cc
  cluster/member.cc
  cluster/nats_bus.cc
  cluster/nats_library.cc
  cluster/nats_link.cc
  cluster/outbox.cc
  cluster/relay.cc
  history/acknowledgements.cc
  history/database_file.cc
  history/deliveries.cc
  history/filter.cc
  history/history.cc
  history/reader.cc
  history/log_position.cc
  history/replica.cc
  history/revision.cc
  history/schema.cc
  history/silences.cc
  history/sqlite.cc
  history/state_folder.cc
  history/store.cc
  ingest/batch_decoder.cc
  ingest/call_rows.cc
  ingest/connection_room.cc
  ingest/decode_call_groups.cc
  ingest/decode_communicators.cc
  ingest/decode_health.cc
  ingest/decode_in_flight.cc
  ingest/decode_rounds.cc
  ingest/distinct_errors.cc
  ingest/door.cc
  ingest/ingest.cc
  ingest/rejection.cc
  ingest/sequence_tracker.cc
  ingest/speaker.cc
  ingest/telemetry_socket.cc
  recording/block.cc
  recording/incident_files.cc
  recording/incident_history.cc
  recording/last_words.cc
  recording/metadata.cc
  recording/reader.cc
  recording/recorder.cc
  recording/recording_file.cc
  report/acknowledgement.cc
  report/call_pages.cc
  report/departed_metrics.cc
  report/find_communicator.cc
  report/headline.cc
  report/incident_metrics.cc
  report/lateness.cc
  report/loss_parts.cc
  report/metric_families.cc
  report/mitigation.cc
  report/mitigation_text.cc
  report/open_incidents.cc
  report/page_query.cc
  report/probe_metrics.cc
  report/process_metrics.cc
  report/prometheus.cc
  report/remedies.cc
  report/revisions_text.cc
  report/silence.cc
  report/status_index.cc
  report/status_json.cc
  report/status_pages.cc
  report/status_text.cc
  report/text_format.cc
  report/verdict_json.cc
  report/verdict_text.cc
  report/wall_clock.cc
  server/acknowledge.cc
  server/analysis.cc
  server/analysis_loop.cc
  server/change_request.cc
  server/cluster_node.cc
  server/cluster_side.cc
  server/config_file.cc
  server/connection_pool.cc
  server/connection_queue.cc
  server/connection_watch.cc
  server/control_group.cc
  server/exposure.cc
  server/heap.cc
  server/http_access.cc
  server/http_api.cc
  server/incidents_api.cc
  server/http_server.cc
  server/layout_file.cc
  server/memory_guard.cc
  server/memory_limit.cc
  server/thread_count.cc
  server/operator_book.cc
  server/page_routes.cc
  server/record.cc
  server/replay.cc
  server/read_turns.cc
  server/reporter.cc
  server/request_checks.cc
  server/request_head.cc
  server/request_role.cc
  server/run_id.cc
  server/serve.cc
  server/silences.cc
  server/surroundings.cc
  server/telemetry_access.cc
  server/tls.cc
  server/tls_connection.cc
  server/tune.cc
  server/verdict_writer.cc
  server/webhook.cc
  server/webhook_turns.cc
  webhook/delivery.cc
  webhook/http_receiver.cc
  webhook/queue.cc
  webhook/sender.cc
  webhook/signature.cc
  webhook/url.cc
  ${CMAKE_CURRENT_BINARY_DIR}/page_files.cc)
# Compiled alone. Each has a name that another file also uses; programs that do not link all that serve.cc needs, or have a
# sequence_tracker.cc of their own, must be able to leave these two out.
set_source_files_properties(
  admission/token_list.cc cli/doctor_checks.cc ingest/sequence_tracker.cc report/headline.cc report/probe_metrics.cc report/verdict_json.cc
  report/verdict_text.cc server/page_routes.cc server/serve.cc validate/nccl_log.cc validate/outcome.cc validate/past.cc
  PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
target_compile_features(ccld_server PUBLIC cxx_std_20)
target_compile_definitions(ccld_server PUBLIC CCLD_VERSION="${PROJECT_VERSION}")
target_include_directories(ccld_server SYSTEM PUBLIC ${CCLD_CPPZMQ_INCLUDE})
target_link_libraries(ccld_server
  PUBLIC ccld_decision ccld_host_port ccld_bounded_json ccld_wire ccld_packing PkgConfig::CCLD_ZMQ nlohmann_json::nlohmann_json absl::synchronization absl::time absl::span
         absl::hash absl::str_format absl::cord absl::cleanup Threads::Threads
  PRIVATE ccld_options PkgConfig::CCLD_CRYPTO PkgConfig::CCLD_SSL PkgConfig::CCLD_HTTPLIB PkgConfig::CCLD_PROMETHEUS PkgConfig::CCLD_SQLITE PkgConfig::CCLD_ZSTD spdlog::spdlog CLI11::CLI11)

# Traces for viewers; protozero writes protobuf by field number, without a schema of its own.
add_library(ccld_trace STATIC
  trace/calls.cc
  trace/directory.cc
  trace/gpu_clocks.cc
  trace/json_writer.cc
  trace/perfetto_writer.cc
  trace/rows.cc
  trace/selection.cc)
target_compile_features(ccld_trace PUBLIC cxx_std_20)
target_include_directories(ccld_trace SYSTEM PRIVATE ${CCLD_PROTOZERO_INCLUDE})
target_link_libraries(ccld_trace PUBLIC ccld_decision absl::span PRIVATE ccld_options nlohmann_json::nlohmann_json absl::str_format)

# Dumps of other tools, judged.
add_library(ccld_import STATIC
  import/differences.cc
  import/fields.cc
  import/files.cc
  import/flight_recorder.cc
  import/import_report.cc
  import/inspector.cc
  import/judge.cc
  import/load.cc
  import/parse_json.cc
  import/ras.cc
  import/rows.cc
  import/shapes.cc
  import/stalls.cc
  import/thresholds.cc
  import/unpickle.cc
  import/value.cc)
target_compile_features(ccld_import PUBLIC cxx_std_20)
target_link_libraries(ccld_import PUBLIC ccld_server PRIVATE ccld_options)

# What a rank of ccld-validate does besides measuring (validate/device). Training processes load it: it needs little.
add_library(ccld_validate_rank STATIC
  validate/meeting.cc
  validate/messages.cc
  validate/nccl_log.cc
  validate/samples.cc)
target_compile_features(ccld_validate_rank PUBLIC cxx_std_20)
target_include_directories(ccld_validate_rank SYSTEM PRIVATE ${CCLD_CPPZMQ_INCLUDE})
target_link_libraries(ccld_validate_rank
  PUBLIC ccld_host_port ccld_bounded_json PkgConfig::CCLD_ZMQ PRIVATE ccld_build_id ccld_options)

# And what its coordinator does: planning, judging, telling.
add_library(ccld_validate STATIC
  validate/hold_plan.cc
  validate/judge.cc
  validate/launch.cc
  validate/options.cc
  validate/outcome.cc
  validate/past.cc
  validate/plan.cc
  validate/quartiles.cc
  validate/schedule.cc
  validate/thresholds.cc
  validate/verdicts.cc)
target_compile_features(ccld_validate PUBLIC cxx_std_20)
target_link_libraries(ccld_validate PUBLIC ccld_validate_rank ccld_server PRIVATE ccld_options CLI11::CLI11)

add_executable(ccld
  cli/ack_command.cc
  cli/advise_command.cc
  cli/cluster_command.cc
  cli/command.cc
  cli/completion.cc
  cli/doctor_checks.cc
  cli/doctor_command.cc
  cli/explain_command.cc
  cli/frames_command.cc
  cli/frames_json.cc
  cli/frames_report.cc
  cli/frames_text.cc
  cli/handshake.cc
  cli/import_command.cc
  cli/incident_source.cc
  cli/incidents_command.cc
  cli/kernel_runs.cc
  cli/local_processes.cc
  cli/login_name.cc
  cli/main.cc
  cli/man_page.cc
  cli/option_table.cc
  cli/pages_command.cc
  cli/record_command.cc
  cli/replay_command.cc
  cli/replay_report.cc
  cli/serve_command.cc
  cli/keys_command.cc
  cli/service_client.cc
  cli/service_options.cc
  cli/settings_command.cc
  cli/silence_command.cc
  cli/status_check.cc
  cli/status_command.cc
  cli/terminal.cc
  cli/top_command.cc
  cli/top_screen.cc
  cli/trace_command.cc
  cli/trace_marks.cc
  cli/tokens_command.cc
  cli/tune_command.cc
  cli/tune_local.cc
  cli/validate_command.cc
  cli/validate_in_job.cc
  cli/verdict_file.cc)
target_link_libraries(ccld PRIVATE ccld_server ccld_validate ccld_trace ccld_import ccld_build_id ccld_options PkgConfig::CCLD_HTTPLIB PkgConfig::CCLD_NCURSES CLI11::CLI11)
set_target_properties(ccld PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
