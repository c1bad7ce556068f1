/* SPDX-License-Identifier: Apache-2.0
 * Hello in plain C: one service with a well-known number, one client.
 *
 *   hello server     answers one greeting, then ends
 *   hello client     greets and prints the answer
 */
#include <stdio.h>
#include <string.h>

#include "ripc/ripc.h"

#define HELLO_ID 1001 /* any number from 1 to RIPC_WELL_KNOWN_MAX that both sides agree on */

static const uint64_t kFiveSeconds = UINT64_C(5000000000);

static int fail(const char *what) {
  fprintf(stderr, "hello: %s: %s\n", what, ripc_last_error());
  return 1;
}

static int serve(ripc_context *context) {
  ripc_service_options options;
  ripc_service *service;
  ripc_message *message;
  ripc_item_view name;
  ripc_item answer[2];
  int result = 0;

  ripc_service_options_init(&options);
  options.id = HELLO_ID;
  if (ripc_service_register(context, &options, &service) != RIPC_OK) return fail("no service");
  puts("hello: serving");
  fflush(stdout);
  if (ripc_receive(service, 0, RIPC_FOREVER, &message) != RIPC_OK) return fail("receive");
  if (ripc_message_get_item(message, 0, &name) != RIPC_OK) return fail("a greeting without a name");
  /* The answer gathers two items from where they are: one of ours, one in the message. */
  memset(answer, 0, sizeof answer);
  answer[0].data = "Hello, ";
  answer[0].size = 7;
  answer[1].data = name.data;
  answer[1].size = name.size;
  if (ripc_reply(service, message, answer, 2, NULL, NULL) != RIPC_OK) result = fail("reply");
  ripc_message_release(message);
  ripc_service_unregister(service);
  return result;
}

static int greet(ripc_context *context) {
  ripc_service *service;
  ripc_message *message;
  ripc_item name = {"world", 5, RIPC_ITEM_AUTO, 0};
  size_t index;

  if (ripc_service_register(context, NULL, &service) != RIPC_OK) return fail("no service");
  if (ripc_send(service, HELLO_ID, &name, 1, NULL, NULL) != RIPC_OK) return fail("send");
  if (ripc_receive(service, 0, kFiveSeconds, &message) != RIPC_OK) return fail("no answer");
  printf("hello: ");
  for (index = 0; index < ripc_message_get_item_count(message); ++index) {
    ripc_item_view part;
    if (ripc_message_get_item(message, index, &part) == RIPC_OK)
      printf("%.*s", (int)part.size, (const char *)part.data);
  }
  printf("\n");
  ripc_message_release(message);
  ripc_service_unregister(service);
  return 0;
}

int main(int argc, char **argv) {
  ripc_context *context;
  int result = 2;

  if (ripc_context_create(NULL, &context) != RIPC_OK) return fail("no context");
  if (argc == 2 && strcmp(argv[1], "server") == 0) {
    result = serve(context);
  } else if (argc == 2 && strcmp(argv[1], "client") == 0) {
    result = greet(context);
  } else {
    fputs("usage: hello server | hello client\n", stderr);
  }
  ripc_context_destroy(context);
  return result;
}
