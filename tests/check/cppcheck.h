// SPDX-License-Identifier: Apache-2.0
//
// cppcheck: what cppcheck must know of macros from headers it does not read. Never compiled.
#define LIBBPF_OPTS(type, name, ...) struct type name
#define json_array_foreach(array, i, item)                                                         \
	for (i = 0; (item = json_array_get(array, i)) != NULL; i++)
#define TAILQ_FOREACH(item, head, field)                                                           \
	for ((item) = (head)->tqh_first; (item); (item) = (item)->field.tqe_next)
#define bpf_object__for_each_program(program, object)                                              \
	while ((program = bpf_object__next_program(object, program)) != NULL)
#define bpf_object__for_each_map(map, object)                                                      \
	while ((map = bpf_object__next_map(object, map)) != NULL)
