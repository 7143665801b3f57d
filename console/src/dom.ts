/*
 * The few lines that stand in for a UI framework. Text is always set as text: there is no way in
 * this program to turn a string into markup, because names, prompts and everything an agent prints
 * are hostile.
 */

export type Child = Node | string | null | undefined | false;
type Handler = (event: never) => unknown;
type Value = string | number | boolean | null | undefined | Handler;

/* `onclick` and its kin become listeners, booleans become present or absent attributes. */
export function h<K extends keyof HTMLElementTagNameMap>(
    tag: K,
    props: Record<string, Value> | null,
    ...children: Child[]
): HTMLElementTagNameMap[K] {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(props ?? {})) {
        if (typeof value === "function") {
            element.addEventListener(name.slice(2), value as unknown as EventListener);
        } else if (value === true) {
            element.setAttribute(name, "");
        } else if (value !== false && value !== null && value !== undefined) {
            element.setAttribute(name, String(value));
        }
    }
    element.append(...present(children));
    return element;
}

function present(children: Child[]): (Node | string)[] {
    return children.filter(
        (c): c is Node | string => c !== null && c !== undefined && c !== false && c !== "",
    );
}

export function fill(element: Element, ...children: Child[]): void {
    element.replaceChildren(...present(children));
}

/*
 * Writes only what changed: a poll every three seconds must not disturb a selection or a screen
 * reader.
 */
export function set_text(element: Element, text: string): void {
    if (element.textContent !== text) {
        element.textContent = text;
    }
}

export function set_attribute(element: Element, name: string, value: string | null): void {
    if (value === null) {
        element.removeAttribute(name);
    } else if (element.getAttribute(name) !== value) {
        element.setAttribute(name, value);
    }
}

export function show(element: HTMLElement, visible: boolean): void {
    if (element.hidden === visible) {
        element.hidden = !visible;
    }
}

/* Keeps one child per key, in the given order, and makes, updates and removes only where needed. */
export function keep_list<T, V extends { element: Element }>(
    parent: Element,
    views: Map<string, V>,
    items: { key: string; item: T }[],
    make: (item: T) => V,
    update: (view: V, item: T) => void,
): void {
    const wanted = new Set(items.map((entry) => entry.key));
    for (const [key, view] of views) {
        if (!wanted.has(key)) {
            view.element.remove();
            views.delete(key);
        }
    }
    items.forEach(({ key, item }, index) => {
        let view = views.get(key);
        if (!view) {
            view = make(item);
            views.set(key, view);
        }
        update(view, item);
        if (parent.children[index] !== view.element) {
            parent.insertBefore(view.element, parent.children[index] ?? null);
        }
    });
}

let next_number = 0;

/* An id for label, description and control to find each other. */
export function unique_id(prefix: string): string {
    next_number += 1;
    return `${prefix}-${next_number}`;
}
