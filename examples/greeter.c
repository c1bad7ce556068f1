/* SPDX-License-Identifier: Apache-2.0
 * Calls in plain C: a service that greets, and a client that calls it.
 *
 *   greeter server        serves until SIGINT or SIGTERM
 *   greeter client NAME   prints the greeting
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "ripc/ripc.h"
#include "ripc/rpc.h"

enum { GREET = 1 };

static ripc_service *serving;

static int fail(const char *what) {
  fprintf(stderr, "greeter: %s: %s\n", what, ripc_last_error());
  return 1;
}

static void on_signal(int number) {
  (void)number;
  ripc_interrupt(serving); /* NOLINT(bugprone-signal-handler): its comment says that it is async-signal-safe */
}

/* Owns the request until it replies, drops or refuses it. */
static void greet(void *user, ripc_request *request) {
  ripc_item answer[2];
  ripc_item_view name;
  (void)user;
  if (ripc_request_get_item(request, 0, &name) != RIPC_OK || name.status != RIPC_OK) {
    ripc_request_refuse(request, RIPC_INVALID_ARGUMENT);
    return;
  }
  memset(answer, 0, sizeof answer);
  answer[0].data = "Hello, ";
  answer[0].size = 7;
  answer[1].data = name.data;
  answer[1].size = name.size;
  /* A reply that fails leaves the request as it was. */
  if (ripc_request_reply(request, 0, answer, 2, NULL) != RIPC_OK) ripc_request_drop(request, RIPC_SYSTEM);
}

static int serve(ripc_context *context) {
  ripc_service_options options;
  ripc_rpc *rpc;
  ripc_status status;

  ripc_service_options_init(&options);
  options.name = "greeter";
  if (ripc_service_register(context, &options, &serving) != RIPC_OK) return fail("no service");
  if (ripc_rpc_create(serving, NULL, &rpc) != RIPC_OK) return fail("no endpoint");
  if (ripc_rpc_handle(rpc, GREET, 0, greet, NULL) != RIPC_OK) return fail("no handler");
  signal(SIGINT, on_signal);
  signal(SIGTERM, on_signal);
  puts("greeter: serving");
  fflush(stdout);
  do {
    status = ripc_rpc_run(rpc, RIPC_FOREVER, NULL);
  } while (status == RIPC_OK);
  if (status != RIPC_INTERRUPTED) return fail("it does not run");
  ripc_rpc_destroy(rpc);
  ripc_service_unregister(serving);
  return 0;
}

static int call(ripc_context *context, const char *name) {
  const ripc_item argument = {name, strlen(name), RIPC_ITEM_AUTO, 0};
  ripc_call_result result;
  ripc_service_id greeter;
  ripc_service *service;
  ripc_rpc *rpc;
  uint32_t index;

  if (ripc_id_from_name("greeter", &greeter) != RIPC_OK) return fail("no ID");
  if (ripc_service_register(context, NULL, &service) != RIPC_OK) return fail("no service");
  if (ripc_rpc_create(service, NULL, &rpc) != RIPC_OK) return fail("no endpoint");
  ripc_call_result_init(&result);
  if (ripc_rpc_call_wait(rpc, greeter, GREET, &argument, 1, NULL, &result) != RIPC_OK) return fail("no call");
  if (result.outcome != RIPC_CALL_ANSWERED) {
    fprintf(stderr, "greeter: %s\n", ripc_call_text(result.outcome, (ripc_status)result.status));
    return 1;
  }
  printf("greeter: ");
  for (index = 0; index < result.item_count; ++index)
    printf("%.*s", (int)result.items[index].size, (const char *)result.items[index].data);
  printf("\n");
  ripc_message_release(result.message); /* ends the life of the items */
  ripc_rpc_destroy(rpc);
  ripc_service_unregister(service);
  return 0;
}

int main(int argc, char **argv) {
  ripc_context *context;
  int result = 2;

  if (ripc_context_create(NULL, &context) != RIPC_OK) return fail("no context");
  if (argc == 2 && strcmp(argv[1], "server") == 0) {
    result = serve(context);
  } else if (argc == 3 && strcmp(argv[1], "client") == 0) {
    result = call(context, argv[2]);
  } else {
    fputs("usage: greeter server | greeter client NAME\n", stderr);
  }
  ripc_context_destroy(context);
  return result;
}
