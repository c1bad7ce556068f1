/* SPDX-License-Identifier: Apache-2.0 */
/* A user of an installed libripc, in C: sends itself a message. */
#include <inttypes.h>
#include <ripc/ripc.h>
#include <stdio.h>
#include <string.h>

static int check(ripc_status status, const char *what) {
  if (status == RIPC_OK) return 1;
  fprintf(stderr, "%s: %s: %s\n", what, ripc_status_name(status), ripc_last_error());
  return 0;
}

int main(void) {
  static const char text[] = "hello";
  const ripc_item item = {text, sizeof text, RIPC_ITEM_AUTO, 0};
  ripc_context *context = NULL;
  ripc_service *service = NULL;
  ripc_message *message = NULL;
  ripc_item_view view;
  int good = check(ripc_context_create(NULL, &context), "ripc_context_create") &&
             check(ripc_service_register(context, NULL, &service), "ripc_service_register") &&
             check(ripc_send(service, ripc_service_get_id(service), &item, 1, NULL, NULL), "ripc_send") &&
             check(ripc_receive(service, 0, UINT64_C(10000000000), &message), "ripc_receive") &&
             check(ripc_message_get_item(message, 0, &view), "ripc_message_get_item");
  if (good && (view.size != sizeof text || memcmp(view.data, text, sizeof text) != 0)) {
    fprintf(stderr, "the message is not what was sent\n");
    good = 0;
  }
  if (good)
    printf("C consumer of libripc %s: service %" PRIx64 " works\n", ripc_version(), ripc_service_get_id(service));
  ripc_message_release(message);
  ripc_service_unregister(service);
  ripc_context_destroy(context);
  return good ? 0 : 1;
}
