export const words = 'first words'
